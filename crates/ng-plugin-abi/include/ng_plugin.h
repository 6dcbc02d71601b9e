/*
 * The binary interface of neargraph plug-ins, version 1. docs/reference/plugin-abi.md explains it.
 *
 * A plug-in is a shared object that exports one function, `ng_plugin_v1`. It registers devices and
 * kernels through the host's table, as RegisterDevice and RegisterOpDefinition of HolisticGNN do.
 *
 * Every struct begins with `struct_size`: set it to sizeof of the struct. Later versions append
 * fields and change none. Fields called `reserved` must be 0.
 */
#ifndef NG_PLUGIN_H
#define NG_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the table that `get_api` returns for this header. */
#define NG_API_VERSION 1u

/* Return codes of functions. */
#define NG_OK 0
/* The call failed; the text of `error` says why. */
#define NG_FAILED 1
/* The kernel does not support the operation for these shapes, dtypes or attributes. The host runs
 * it on the reference device. Only `query` may return this code. */
#define NG_NOT_SERVED 2
/* The elements do not fit, for example an index is out of range. */
#define NG_MISFIT 3

/* Types of elements. */
#define NG_F32 0u
#define NG_I64 1u
/* One byte: 0 or 1. */
#define NG_BOOL 2u

/* Locations of elements. */
#define NG_CPU 0u

/* `run` and `query` may be called by several threads at once. */
#define NG_TRAIT_THREAD_SAFE 1u
/* The same inputs give the same bytes for any number of threads. */
#define NG_TRAIT_DETERMINISTIC 2u

/* UTF-8 text that need not end with a 0. */
typedef struct NgText {
    const char *data;
    uint64_t len;
} NgText;

/* The buffer for the text of an error. The host owns it. */
typedef struct NgError {
    uint64_t struct_size;
    char *data;
    /* The size of the buffer in bytes. */
    uint64_t capacity;
    /* The number of bytes that the plug-in wrote, at most `capacity`. */
    uint64_t len;
} NgError;

/* A tensor to read. */
typedef struct NgView {
    uint64_t struct_size;
    /* NULL in `query`. */
    const void *data;
    /* `rank` lengths. */
    const int64_t *dims;
    /* For each axis, the distance of consecutive elements, in elements. */
    const int64_t *strides;
    uint32_t rank;
    uint32_t dtype;
    uint32_t device;
    uint32_t reserved;
} NgView;

/* A tensor to fill. The host owns the memory. Its content before the call has no meaning. */
typedef struct NgViewMut {
    uint64_t struct_size;
    /* NULL in `query`. */
    void *data;
    const int64_t *dims;
    const int64_t *strides;
    uint32_t rank;
    uint32_t dtype;
    uint32_t device;
    uint32_t reserved;
} NgViewMut;

/* An attribute in its text form: a number, a list such as [1, 0], or a word. */
typedef struct NgAttribute {
    uint64_t struct_size;
    NgText name;
    NgText value;
} NgAttribute;

/* An operation: its name, and its attributes sorted by name. */
typedef struct NgOp {
    uint64_t struct_size;
    NgText name;
    const NgAttribute *const *attributes;
    uint32_t attribute_count;
    uint32_t reserved;
} NgOp;

/* The argument of `query` and `run`. All of it is valid until they return. */
typedef struct NgCall {
    uint64_t struct_size;
    const NgOp *op;
    const NgView *const *inputs;
    NgViewMut *const *outputs;
    uint32_t input_count;
    uint32_t output_count;
    /* Scratch memory of the size that `query` returned, aligned to the kernel's alignment or 64. */
    void *scratch;
    uint64_t scratch_bytes;
    NgError *error;
    /* The number of threads that `run` may use, including its own; at least 1. */
    uint32_t threads;
    uint32_t reserved;
} NgCall;

/* Sets the bytes of scratch memory that `run` needs for these shapes. `scratch_bytes` is initially
 * 0. */
typedef int32_t (*NgQuery)(void *state, const NgCall *call, uint64_t *scratch_bytes);
/* Fills the outputs. */
typedef int32_t (*NgRun)(void *state, const NgCall *call);

/* A device and its priority. The reference device has priority 0. */
typedef struct NgDevice {
    uint64_t struct_size;
    NgText name;
    int32_t priority;
    uint32_t reserved;
} NgDevice;

/* A kernel for an operation on a device. */
typedef struct NgKernel {
    uint64_t struct_size;
    NgText op;
    NgText device;
    /* NG_TRAIT_... */
    uint64_t traits;
    /* A bit (1u << dtype) for each dtype that its inputs may have. */
    uint32_t dtypes;
    /* The alignment of data and scratch memory in bytes: a power of two up to 4096. */
    uint32_t alignment;
    /* Passed to `query` and `run` unchanged. */
    void *state;
    NgQuery query;
    NgRun run;
} NgKernel;

typedef struct NgRegistry NgRegistry;

/* The host's functions, version 1. They copy their arguments. */
typedef struct NgApi {
    uint64_t struct_size;
    int32_t (*register_device)(NgRegistry *registry, const NgDevice *device);
    int32_t (*register_op_definition)(NgRegistry *registry, const NgKernel *kernel);
} NgApi;

/* The argument of `ng_plugin_v1`. It is valid until the function returns. */
typedef struct NgHost {
    uint64_t struct_size;
    /* The table of a version, or NULL if the host does not have it. */
    const NgApi *(*get_api)(uint32_t version);
    NgRegistry *registry;
    NgError *error;
} NgHost;

/* The description of the plug-in, which `ng_plugin_v1` fills in. The host sets `struct_size`. */
typedef struct NgPlugin {
    uint64_t struct_size;
    /* The version that the plug-in requested from `get_api`. */
    uint32_t api_version;
    uint32_t reserved;
    NgText name;
    NgText version;
} NgPlugin;

/* The one symbol that a plug-in exports. */
int32_t ng_plugin_v1(const NgHost *host, NgPlugin *plugin);

#ifdef __cplusplus
}
#endif

#endif
