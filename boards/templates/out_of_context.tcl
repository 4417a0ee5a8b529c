# SPDX-License-Identifier: BSD-2-Clause
# Written by inceptionn. Sourced once a Vivado project is open: its top becomes a part of a design, without pads.
set_property -name {STEPS.SYNTH_DESIGN.ARGS.MORE OPTIONS} -value {-mode out_of_context} -objects [get_runs synth_1]
