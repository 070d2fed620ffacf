"""Model-specific registers, as the kernel's modules `msr` and `cpuid` give them to programs.

    tree       /dev/cpu/N/msr and /dev/cpu/N/cpuid
    registers  RDT's: classes, masks, limits, monitors; what they meter
    fixed      those that say what there is, and counters that nobody can stop

They are the hardware beside the lab's resctrl, metered by the same ledger from the same model.
While resctrl is mounted they show what it has set; RDT's can't be written then (EIO), which is a
deliberate difference: real hardware takes it, and the kernel does not hear of it. A mount and an
unmount leave them as after a boot.
"""
