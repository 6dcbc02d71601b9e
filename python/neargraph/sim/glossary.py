"""The meanings of platforms and terms, in a sentence each.

What must not live here: figures.
"""

PLATFORMS = {
    "this host": "neargraph's loader on this machine and its disk, within the memory budget.",
    "uncached reader": "This machine's disk, read page by page with io_uring and without a cache: "
    "the lowest rate that a program should reach.",
    "CC-uring": "An ordinary SSD with the simulated flash, which answers the read requests of this "
    "machine's loader and computes nothing.",
    "CC": "CPU-centric, the baseline of BeaconGNN: every page goes to the host, which samples. An "
    "accelerator beside the host computes the model.",
    "CC-pipe": "CC, but pages cross PCIe while other pages are read, and sampling takes no time.",
    "CC-512": "CC that fetches sectors of 512 bytes in place of whole pages.",
    "SSD-mmap": "The host samples through memory-mapped files; each worker has one page fault at a "
    "time.",
    "SSD-direct": "The host samples with O_DIRECT reads; each worker has one read in flight.",
    "host-DRAM": "No SSD: the graph is in the host's memory.",
    "host-PMEM": "No SSD: the graph is in persistent memory on the host's memory bus.",
    "FPGA-CSD": "Pages are copied to an FPGA beside the SSD. The FPGA samples, and sends ids and "
    "features to the host.",
    "SmartSage": "The SSD's own cores sample, hop by hop; ids and features go to the host.",
    "SmartSAGE-coalesced": "SmartSage with one command for many targets.",
    "GList": "The host samples. It gets whole pages, but of the last hop only the features.",
    "BG-1": "The SSD's cores sample hop by hop, and an accelerator in the SSD computes the model.",
    "BG-DG": "BG-1 on the direct layout: each result starts the next reads at once, before the hop "
    "ends.",
    "BG-SP": "BG-1 with a sampler on each flash die, so that only drawn neighbours leave the die.",
    "BG-DGSP": "BG-DG and BG-SP together; commands still pass through the SSD's firmware.",
    "BG-2": "BG-DGSP with a router in hardware in place of the firmware.",
}
TERMS = {
    "target": "A node for which the model computes a result; a batch has many.",
    "queue depth": "Reads in flight at the same time.",
    "p99": "The time within which 99 of 100 commands finish.",
    "p50": "The median: the time within which half of the commands finish.",
    "lower bound": "The time of the busiest part's work alone. A batch that takes 1.00 times its "
    "lower bound cannot become faster by better scheduling.",
    "bound by": "The part with the most work. If a batch takes about the time of its lower bound, "
    "only this part limits the rate.",
    "most sensitive to": "The constant whose halving and doubling changes the gain most.",
    "active dies": "Flash dies that sense or sample at a given time.",
    "TLC": "Flash with three bits per cell, as in most SSDs: to sense a page takes 40 to 65 us, "
    "not 3 us.",
    "hop": "One step along edges from a target.",
    "die": "An independent part of a flash chip: it senses (reads) one page at a time.",
    "channel": "The bus between a group of dies and the SSD's controller.",
    "int8": "One byte per feature, with a scale for each column.",
}
MEANINGS = PLATFORMS | TERMS

_SERVERS = {
    "disk": "its disk",
    "processor": "the host's processor",
    "host": "the host's processor",
    "host cores": "the host's processor",
    "DRAM": "the SSD's memory",
    "cores": "the SSD's cores",
    "dies": "the flash dies",
    "channels": "the flash channels",
    "memory": "the host's memory",
    "accelerator": "the accelerator",
}
_CONSTANTS = {
    "flash.channels": "flash channels",
    "flash.dies_per_channel": "dies of a channel",
    "flash.planes": "planes of a die",
    "flash.channel_bytes_per_s": "bandwidth of a channel",
    "flash.sense_ns": "time to sense a page",
    "flash.registers": "page registers of a die",
    "flash.read_command_ns": "time of a read command",
    "flash.planes_command_ns": "time of a command for several planes",
    "flash.data_setup_ns": "time before a transfer",
    "flash.program_ns": "time to program a page",
    "flash.spare_bytes": "spare bytes of a page",
    "flash.sampler_ns": "time of a die's sampler",
    "flash.sampler_bytes_per_s": "rate of a die's sampler",
    "dram.bytes_per_s": "bandwidth of the SSD's memory",
    "dram.lookup_bytes": "bytes of a lookup in the SSD's memory",
    "pcie.bytes_per_s": "bandwidth of PCIe",
    "pcie.payload_bytes": "payload of a PCIe packet",
    "pcie.overhead_bytes": "header of a PCIe packet",
    "pcie.unit_bytes": "smallest transfer over PCIe",
    "firmware.cores": "the SSD's cores",
    "firmware.issue_ns": "firmware time of a command",
    "firmware.complete_ns": "firmware time of a result",
    "host.stack_ns": "latency of the host's I/O stack",
    "host.io_ns": "processor time of an I/O",
    "host.fault_ns": "processor time of a page fault",
    "host.cores": "the host's cores",
    "memory.dram_latency_ns": "latency of the host's DRAM",
    "memory.dram_bytes_per_s": "bandwidth of the host's DRAM",
    "memory.dram_unit_bytes": "smallest load from the host's DRAM",
    "memory.pmem_latency_ns": "latency of persistent memory",
    "memory.pmem_bytes_per_s": "bandwidth of persistent memory",
    "memory.pmem_unit_bytes": "smallest load from persistent memory",
    "accelerator.rows": "rows of the accelerator's array",
    "accelerator.columns": "columns of the accelerator's array",
    "accelerator.hertz": "clock of the accelerator",
    "accelerator.lanes": "lanes of the accelerator's vector unit",
    "accelerator.scratchpad_bytes": "scratchpad of the accelerator",
    "accelerator.words_per_cycle": "words per cycle from the accelerator's memory",
    "router.port_bytes_per_s": "bandwidth of a router's port",
    "router.latency_ns": "latency of the router",
    "router.command_bytes": "bytes of a command in the router",
    "router.queue_depth": "commands that wait for a die in the router",
}
_READING = {
    "batch by batch": "each batch by itself",
    "modelled": "as modelled, because no loader ran",
    "scan": "many batches ahead, in passes over the file (scan)",
    "window": "many batches ahead; a row stays in memory while batches of the window need it "
    "(window)",
    "distribute": "many batches ahead, sorted through temporary files (distribute)",
}


def in_words(server: str) -> str:
    """Returns the resource that bounds a batch, in words.

    >>> in_words("DRAM"), in_words("PCIe")
    ("the SSD's memory", 'PCIe')
    """
    return _SERVERS.get(server, server)


def constant_in_words(name: str) -> str:
    """Returns a constant in words, with its name.

    >>> constant_in_words("flash.channels"), constant_in_words("energy.volts")
    ('flash channels (flash.channels)', 'energy.volts')
    """
    return f"{_CONSTANTS[name]} ({name})" if name in _CONSTANTS else name


def reading_in_words(reading: str) -> str:
    """Returns how a loader reads rows, in words.

    >>> reading_in_words("batch by batch")
    'each batch by itself'
    """
    return _READING.get(reading, reading)
