// SPDX-License-Identifier: BSD-2-Clause
// The MMCM as far as UG472 describes its status: for benches, not a model of its analogue parts.
// - LOCKED rises after LOCK_CYCLES of CLKIN1 at its nominal period, out of reset.
// - It falls when CLKIN1 stops or has another period, and while RST is high.
// - Behind a CLKIN1 that stopped or changed out of reset it stays low until RST has been high for 5 ns (DS183).
`timescale 1ps / 1ps

module MMCME2_BASE #(
    parameter real CLKIN1_PERIOD = 0.0,
    parameter integer DIVCLK_DIVIDE = 1,
    parameter real CLKFBOUT_MULT_F = 5.0,
    parameter real CLKOUT0_DIVIDE_F = 1.0
) (
    input CLKIN1, CLKFBIN, PWRDWN, RST,
    output CLKFBOUT, CLKFBOUTB, CLKOUT0B, CLKOUT1, CLKOUT1B, CLKOUT2, CLKOUT2B, CLKOUT3, CLKOUT3B, CLKOUT4,
    output CLKOUT5, CLKOUT6,
    output reg CLKOUT0 = 0,
    output reg LOCKED = 0
);

localparam LOCK_CYCLES = 400;
localparam real HALF = 500.0 * CLKIN1_PERIOD * DIVCLK_DIVIDE * CLKOUT0_DIVIDE_F / CLKFBOUT_MULT_F;

realtime edge_at = 0, reset_at = 0;
reg stuck = 0;
integer good = 0, edges = 0; // since RST

task lose;
    begin
        good = 0;
        LOCKED = 0;
        stuck = !RST;
    end
endtask

always @(posedge CLKIN1) begin
    edges = edges + 1;
    if (edges < 2) good = 0;
    else if ($realtime - edge_at > 1010.0 * CLKIN1_PERIOD || $realtime - edge_at < 990.0 * CLKIN1_PERIOD) lose;
    else good = good + 1;
    edge_at = $realtime;
    if (good >= LOCK_CYCLES && !stuck && !RST) LOCKED = 1;
end

always #1000 if (edges > 0 && $realtime - edge_at > 3000.0 * CLKIN1_PERIOD) lose;

always @(posedge RST) begin
    reset_at = $realtime;
    good = 0;
    LOCKED = 0;
end

always @(negedge RST) begin
    good = 0;
    edges = 0;
    if ($realtime - reset_at >= 5000.0) stuck = 0;
end

always #HALF CLKOUT0 = LOCKED & ~CLKOUT0;

endmodule

module BUFG (input I, output O);
assign O = I;
endmodule
