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

/* What functions return. */
#define NG_OK 0
/* The call failed; the text of `error` says why. */
#define NG_FAILED 1
/* The kernel does not do this operation for such shapes, dtypes or attributes. The host lets the
 * reference device do it. Only `query` may return it. */
#define NG_NOT_SERVED 2
/* The elements do not fit, for example an index is out of range. */
#define NG_MISFIT 3

/* Types of elements. */
#define NG_F32 0u
#define NG_I64 1u
/* One byte: 0 or 1. */
#define NG_BOOL 2u

/* Where elements are. */
#define NG_CPU 0u

/* `run` and `query` may be called by several threads at once. */
#define NG_TRAIT_THREAD_SAFE 1u
/* The same inputs give the same bytes, whatever `threads` is. */
#define NG_TRAIT_DETERMINISTIC 2u

/* UTF-8 text that need not end with a 0. */
typedef struct NgText {
    const char *data;
    uint64_t len;
} NgText;

/* Room for the text of an error. The host owns it. */
typedef struct NgError {
    uint64_t struct_size;
    char *data;
    /* How many bytes there is room for. */
    uint64_t capacity;
    /* How many bytes the plug-in wrote; at most `capacity`. */
    uint64_t len;
} NgError;

/* A tensor to read. */
typedef struct NgView {
    uint64_t struct_size;
    /* NULL in `query`. */
    const void *data;
    /* `rank` lengths. */
    const int64_t *dims;
    /* For each axis the distance of two neighbours, in elements. */
    const int64_t *strides;
    uint32_t rank;
    uint32_t dtype;
    uint32_t device;
    uint32_t reserved;
} NgView;

/* A tensor to fill. The host owns the memory; what is in it before has no meaning. */
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

/* An operation: its name, and its attributes in the order of their names. */
typedef struct NgOp {
    uint64_t struct_size;
    NgText name;
    const NgAttribute *const *attributes;
    uint32_t attribute_count;
    uint32_t reserved;
} NgOp;

/* What `query` and `run` are given. All of it is valid until they return. */
typedef struct NgCall {
    uint64_t struct_size;
    const NgOp *op;
    const NgView *const *inputs;
    NgViewMut *const *outputs;
    uint32_t input_count;
    uint32_t output_count;
    /* As many bytes as `query` asked for, aligned as the kernel asks, at least to 64. */
    void *scratch;
    uint64_t scratch_bytes;
    NgError *error;
    /* How many threads `run` may keep busy, its own included; at least 1. */
    uint32_t threads;
    uint32_t reserved;
} NgCall;

/* How many bytes of scratch memory `run` needs for such shapes. `scratch_bytes` is 0 before. */
typedef int32_t (*NgQuery)(void *state, const NgCall *call, uint64_t *scratch_bytes);
/* Fills the outputs. */
typedef int32_t (*NgRun)(void *state, const NgCall *call);

/* A device and how much it is preferred; the reference device has priority 0. */
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
    /* Of data and scratch, in bytes: a power of two up to 4096. */
    uint32_t alignment;
    /* Handed to `query` and `run` as it is. */
    void *state;
    NgQuery query;
    NgRun run;
} NgKernel;

typedef struct NgRegistry NgRegistry;

/* The host's functions, version 1. They copy what they are given. */
typedef struct NgApi {
    uint64_t struct_size;
    int32_t (*register_device)(NgRegistry *registry, const NgDevice *device);
    int32_t (*register_op_definition)(NgRegistry *registry, const NgKernel *kernel);
} NgApi;

/* What `ng_plugin_v1` is given; valid until it returns. */
typedef struct NgHost {
    uint64_t struct_size;
    /* The table of a version, or NULL if the host does not have it. */
    const NgApi *(*get_api)(uint32_t version);
    NgRegistry *registry;
    NgError *error;
} NgHost;

/* What the plug-in says of itself. The host sets `struct_size` to what it has room for. */
typedef struct NgPlugin {
    uint64_t struct_size;
    /* The version that the plug-in asked `get_api` for. */
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
