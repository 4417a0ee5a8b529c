# SPDX-License-Identifier: BSD-2-Clause
# Timing of the paths between clocks. Every register that samples another clock's data carries the attribute
# inceptionn.crossing, every reset synchroniser inceptionn.reset_crossing; this finds them wherever the module lies
# in a design. It is a constraint file with loops, which Vivado calls unmanaged: read with read_xdc -unmanaged, or added
# to the file set constrs_1 for implementation, processed late, when all clocks are known. Sourced without an open
# design it would find nothing.
if {[current_design -quiet] eq ""} {
    error "crossings.tcl: no design is open; add it to constrs_1, or read it by read_xdc -unmanaged"
}

# Data: the path may take one period of the faster clock, which also keeps the bits of a Gray-coded pointer
# within one period of each other. -datapath_only leaves skew and hold out.
foreach cell [get_cells -quiet -hierarchical -filter {inceptionn.crossing == "TRUE"}] {
    set input [get_pins -quiet -of_objects $cell -filter {REF_PIN_NAME == D}]
    set own [get_clocks -quiet -of_objects [get_pins -quiet -of_objects $cell -filter {REF_PIN_NAME == C}]]
    set starts [all_fanin -quiet -flat -startpoints_only $input]
    foreach other [get_clocks -quiet -of_objects $starts] {
        if {[lsearch -exact $own $other] < 0} {
            set period [get_property PERIOD [get_clocks $other]]
            foreach clock $own {
                set period [expr {min($period, [get_property PERIOD [get_clocks $clock]])}]
            }
            set_max_delay -datapath_only -from [get_clocks $other] -to $cell $period
        }
    }
}

# Resets set these registers at once, whenever they come.
foreach cell [get_cells -quiet -hierarchical -filter {inceptionn.reset_crossing == "TRUE"}] {
    foreach pin [get_pins -quiet -of_objects $cell -filter {REF_PIN_NAME == PRE || REF_PIN_NAME == CLR}] {
        set_false_path -to $pin
    }
}
