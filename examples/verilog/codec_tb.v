// SPDX-License-Identifier: BSD-2-Clause
// Both codec modules of a generated folder (8 lanes) in a plain Verilog test bench, for Icarus Verilog:
//   inceptionn generate --board generic --out g
//   iverilog -g2005 -o tb codec_tb.v g/inceptionn_compressor.v g/inceptionn_decompressor.v && vvp tb
// For the codec planes add -P codec_tb.NUMBER=117 (E0) to the second command.
module codec_tb;
    parameter PACKETS = 20, LANES = 362;              // LANES: 1 to 2304, here a frame of 1,500 bytes
    parameter E0 = 117, T = 122, B = 122;             // error bound 2^-10, mode bounded
    parameter NUMBER = B;                             // the decompressor's: B, or E0 with the codec planes
    localparam BEATS = (LANES + 7) / 8, REST = LANES - 8 * (BEATS - 1);
    localparam [31:0] ENDING = 32'hFFFFFFFF >> 4 * (8 - REST);  // tkeep of the last beat

    reg aclk = 0, aresetn = 0, offer = 0, failed = 0;
    always #2 aclk = !aclk;
    wire [255:0] lanes, block, restored;
    wire [31:0] block_keep, restored_keep;
    wire ready, block_valid, block_ready, block_last, overlong, restored_valid, restored_last, malformed;
    integer sent = 0, received = 0, bytes = 0, i, waited;
    wire sent_last = sent % BEATS == BEATS - 1;

    inceptionn_compressor compressor (.aclk(aclk), .aresetn(aresetn),
        .cfg_e0(E0[7:0]), .cfg_t(T[7:0]), .cfg_b(B[7:0]),
        .s_axis_tdata(lanes), .s_axis_tkeep(sent_last ? ENDING : 32'hFFFFFFFF), .s_axis_tuser(1'b0),
        .s_axis_tlast(sent_last), .s_axis_tvalid(offer), .s_axis_tready(ready),
        .m_axis_tdata(block), .m_axis_tkeep(block_keep), .m_axis_tuser(overlong),
        .m_axis_tlast(block_last), .m_axis_tvalid(block_valid), .m_axis_tready(block_ready));
    inceptionn_decompressor decompressor (.aclk(aclk), .aresetn(aresetn), .cfg_b(NUMBER[7:0]),
        .s_axis_tdata(block), .s_axis_tkeep(block_keep), .s_axis_tuser(LANES[15:0]),
        .s_axis_tlast(block_last), .s_axis_tvalid(block_valid), .s_axis_tready(block_ready),
        .m_axis_tdata(restored), .m_axis_tkeep(restored_keep), .m_axis_tuser(malformed),
        .m_axis_tlast(restored_last), .m_axis_tvalid(restored_valid), .m_axis_tready(1'b1));

    function real value(input integer n); value = 0.05 * $sin(0.7 * n) / (1 + n % 9); endfunction
    function [31:0] single(input real x); reg [63:0] d; begin  // rounded towards 0; for |x| from 2^-126 on
        d = $realtobits(x);
        single = d[62:52] < 897 ? 32'd0 : {d[63], d[59:52] - 8'd128, d[51:29]};
    end endfunction
    function real double(input [31:0] x);
        double = x[30:0] == 0 ? 0.0 : $bitstoreal({x[31], 11'd896 + x[30:23], x[22:0], 29'd0});
    endfunction
    task fail(input [8*80:1] why); if (!failed) begin
        failed = 1;
        $fatal(1, "at packet %0d, beat %0d: %0s", received / BEATS, received % BEATS, why);
    end endtask

    genvar g;
    generate for (g = 0; g < 8; g = g + 1) begin : lane
        assign lanes[32 * g +: 32] = single(value(8 * sent + g));
    end endgenerate
    always @(posedge aclk) if (aresetn) begin
        if (offer && ready) begin sent <= sent + 1; if (sent + 1 == PACKETS * BEATS) offer <= 0; end
        if (block_valid && block_ready) begin
            for (i = 0; i < 32; i = i + 1) bytes = bytes + block_keep[i];
            if (overlong !== 0) fail("the compressor marks a packet of more than 2304 lanes");
        end
        if (restored_valid) begin
            if (malformed !== 0) fail("the decompressor marks a malformed block");
            if (restored_last !== (received % BEATS == BEATS - 1)) fail("tlast is at another beat");
            if (restored_keep !== (restored_last ? ENDING : 32'hFFFFFFFF)) fail("tkeep has other lanes");
            for (i = 0; i < 8; i = i + 1) if (restored_keep[4 * i])
                if (^restored[32 * i +: 32] === 1'bx ||
                    double(restored[32 * i +: 32]) - value(8 * received + i) > 0.0009766 ||
                    double(restored[32 * i +: 32]) - value(8 * received + i) < -0.0009766)
                        fail("a lane is beyond the bound");
            received = received + 1;
        end
    end
    initial begin
        repeat (8) @(posedge aclk); aresetn <= 1; offer <= 1;
        for (waited = 0; waited < 1000 + 8 * PACKETS * BEATS && received < PACKETS * BEATS; waited = waited + 1)
            @(posedge aclk);
        if (received < PACKETS * BEATS) fail("no more lanes arrive");
        $display("PASS: %0d packets of %0d lanes, %0d bytes as %0d", PACKETS, LANES, 4 * LANES * PACKETS, bytes);
        $finish;
    end
endmodule
