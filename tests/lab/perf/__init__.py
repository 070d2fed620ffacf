"""perf_event_open(2) for the lab: caught as `calls` does, and answered by files that are events.

    opening     the handler of the call
    call        what goes from there to the server: one call, as the name of the file to open
    tree        the server's side: files that open, read and switch as events do
    context     what the events of a CPU, task or box have counted; `schedule`: when they could
    tasks       how long a task of this host has run; `perf stat COMMAND` counts those
    events, pmu what an event counts and which counters it may take; the tables are in pmus/
    access,attr who may, and which arguments make sense
    competitor  events of another program, which take counters from all others
    sysfs       the files by which programs find the PMUs

Known differences from a kernel: nothing samples and nothing is mapped into memory
(perf record, rdpmc); exclude_user and its like are taken and leave nothing out; control groups'
events are refused; metrics of the slots have full resolution, the register's has 8 bits; a task's
events and its CPU's do not compete for counters; a task's children count once it has waited for
them, to 10 ms, and what it or they did in the last 5 ms of its life may be missing, so that
`perf stat COMMAND` undercounts a short one; events a table does not know count 0, and
ctl/unknown names them; while the lab's clock stands times go on by a ns a read, so that they grow
between any two as on a kernel.

An offline CPU's workload goes on in the model, unseen, and is there again with the CPU.

A new machine is a file of ../machines, a new core PMU one of pmus/, what its events count a table
of nftop/sim/events.toml.
"""
