// SPDX-License-Identifier: BSD-2-Clause
// A bench to copy: inceptionn_nic of a generated folder in plain Verilog, for Icarus Verilog. Three UDP packets
// of fp32 values go from the host to the wire and, looped back, to the host: untagged, tagged, tagged in a VLAN.
//   inceptionn generate --board generic --out g
//   iverilog -g2005 -o tb nic_tb.v g/inceptionn_nic.v && vvp tb
// It serves both codecs. Add -P nic_tb.BYTES=4 for --lanes 1, =64 for --lanes 16 or two engines of 8 lanes,
// =128 for two engines of 16.
// It prints PASS, or ends by $fatal: the exit status of vvp is then 1. Unknown bits (X) fail, too.
module nic_tb;
    parameter BYTES = 32;                             // width of the streams
    parameter VALUES = 368;                           // of a packet, at most 368: an IP packet of 1,500 bytes
    localparam [7:0] TAG = 8'h28;                     // ToS of packets with fp32 values, out of reset

    reg aclk = 0, aresetn = 0, failed = 0;
    always #2 aclk = !aclk;

    // The streams. "wire" joins m_axis_tx to s_axis_rx; byte lane 0 is a frame's first byte.
    reg [8*BYTES-1:0] tx_data = 0;
    reg [BYTES-1:0] tx_keep = 0;
    reg tx_valid = 0, tx_last = 0;
    wire [8*BYTES-1:0] wire_data, rx_data;
    wire [BYTES-1:0] wire_keep, rx_keep;
    wire tx_ready, wire_valid, wire_ready, wire_last, wire_bad, rx_valid, rx_last, rx_bad;

    // The registers' bus.
    reg [11:0] address = 0;
    reg ar_valid = 0, aw_valid = 0, w_valid = 0;
    reg [31:0] w_data = 0;
    wire ar_ready, aw_ready, w_ready, r_valid, b_valid;
    wire [31:0] r_data;
    wire [1:0] r_resp, b_resp;

    inceptionn_nic nic (.aclk(aclk), .aresetn(aresetn),
        .s_axis_tx_tdata(tx_data), .s_axis_tx_tkeep(tx_keep), .s_axis_tx_tuser(1'b0),
        .s_axis_tx_tlast(tx_last), .s_axis_tx_tvalid(tx_valid), .s_axis_tx_tready(tx_ready),
        .m_axis_tx_tdata(wire_data), .m_axis_tx_tkeep(wire_keep), .m_axis_tx_tuser(wire_bad),
        .m_axis_tx_tlast(wire_last), .m_axis_tx_tvalid(wire_valid), .m_axis_tx_tready(wire_ready),
        .s_axis_rx_tdata(wire_data), .s_axis_rx_tkeep(wire_keep), .s_axis_rx_tuser(wire_bad),
        .s_axis_rx_tlast(wire_last), .s_axis_rx_tvalid(wire_valid), .s_axis_rx_tready(wire_ready),
        .m_axis_rx_tdata(rx_data), .m_axis_rx_tkeep(rx_keep), .m_axis_rx_tuser(rx_bad),
        .m_axis_rx_tlast(rx_last), .m_axis_rx_tvalid(rx_valid), .m_axis_rx_tready(1'b1),
        .s_axil_awaddr(address), .s_axil_awprot(3'b0), .s_axil_awvalid(aw_valid), .s_axil_awready(aw_ready),
        .s_axil_wdata(w_data), .s_axil_wstrb(4'hF), .s_axil_wvalid(w_valid), .s_axil_wready(w_ready),
        .s_axil_bresp(b_resp), .s_axil_bvalid(b_valid), .s_axil_bready(1'b1),
        .s_axil_araddr(address), .s_axil_arprot(3'b0), .s_axil_arvalid(ar_valid), .s_axil_arready(ar_ready),
        .s_axil_rdata(r_data), .s_axil_rresp(r_resp), .s_axil_rvalid(r_valid), .s_axil_rready(1'b1));

    // A frame: Ethernet, IPv4 and UDP headers, big-endian, then values, little-endian.
    reg [7:0] sent [0:1517], frame [0:1517];
    integer size, at, on_wire, on_host, i, k, waited;
    task put(input [15:0] word); begin sent[at] = word[15:8]; sent[at + 1] = word[7:0]; at = at + 2; end endtask
    function [31:0] value(input integer n); reg [7:0] exponent; begin  // 2^-11 to 2^-4, of either sign
        exponent = 116 + n % 7;
        value = {n[0], exponent, n[7:0] * 8'd37, n[6:0] * 7'd11, 8'd0};
    end endfunction
    function [15:0] sum(input integer begins, input integer ends, input [31:0] start);
        integer n; reg [31:0] total; begin
            total = start;
            for (n = begins; n < ends; n = n + 2) total = total + {sent[n], n + 1 < ends ? sent[n + 1] : 8'd0};
            while (total[31:16] != 0) total = total[31:16] + total[15:0];
            sum = total[15:0];
        end
    endfunction
    task make(input [7:0] tos, input vlan); integer ip; begin
        at = 0;
        put(16'h0200); put(16'h0000); put(16'h0002); put(16'h0200); put(16'h0000); put(16'h0001);
        if (vlan) begin put(16'h8100); put(16'h0005); end
        put(16'h0800);
        ip = at;
        put({8'h45, tos}); put(28 + 4 * VALUES); put(0); put(16'h4000); put(16'h4011); put(0);
        put(16'h0A00); put(16'h0001); put(16'h0A00); put(16'h0002);
        put(16'd9000); put(16'd9000); put(8 + 4 * VALUES); put(0);
        for (i = 0; i < VALUES; i = i + 1) {sent[at + 4 * i + 3], sent[at + 4 * i + 2], sent[at + 4 * i + 1],
                                            sent[at + 4 * i]} = value(i);
        size = at + 4 * VALUES;
        {sent[ip + 10], sent[ip + 11]} = ~sum(ip, ip + 20, 0);
        {sent[ip + 26], sent[ip + 27]} = ~sum(ip + 12, size, 16'h11 + 8 + 4 * VALUES);  // with the pseudo header
    end endtask

    task fail(input [8*60:1] why); if (!failed) begin
        failed = 1;
        $fatal(1, "%0s", why);
    end endtask

    // What leaves is counted on the wire and kept at the host.
    reg arrived = 0;
    always @(posedge aclk) if (aresetn) begin
        if (wire_valid && wire_ready) begin
            for (k = 0; k < BYTES; k = k + 1) on_wire = on_wire + wire_keep[k];
            if (wire_last !== 0 && wire_bad !== 0) fail("a frame is marked bad on the wire");
        end
        if (rx_valid) begin
            for (k = 0; k < BYTES; k = k + 1) if (rx_keep[k] !== 0) begin
                frame[on_host] = rx_data[8*k +: 8];
                on_host = on_host + 1;
            end
            if (rx_last !== 0 && rx_bad !== 0) fail("a frame is marked bad at the host");
            if (rx_last) arrived <= 1;
        end
    end

    function real double(input [31:0] x);
        double = x[30:0] == 0 ? 0.0 : $bitstoreal({x[31], 11'd896 + x[30:23], x[22:0], 29'd0});
    endfunction
    task pass(input [7:0] tos, input vlan, input [8*12:1] name);
    real off; reg [31:0] restored; begin
        make(tos, vlan);
        on_wire = 0; on_host = 0; arrived <= 0;
        for (i = 0; i < size; i = i + BYTES) begin
            for (k = 0; k < BYTES; k = k + 1) begin
                tx_data[8*k +: 8] <= i + k < size ? sent[i + k] : 8'd0;
                tx_keep[k] <= i + k < size;
            end
            tx_last <= i + BYTES >= size;
            tx_valid <= 1;
            @(posedge aclk); while (tx_ready !== 1) @(posedge aclk);
        end
        tx_valid <= 0;
        for (waited = 0; waited < 20000 && !arrived; waited = waited + 1) @(posedge aclk);
        if (!arrived) fail("a frame does not arrive");
        if (on_host !== size) fail("a frame arrives with another length");
        for (i = 0; i < at - 2; i = i + 1)            // the checksum is that of the values
            if (frame[i] !== sent[i]) fail("a header has changed");
        for (i = 0; i < VALUES; i = i + 1) begin
            restored = {frame[at + 4*i + 3], frame[at + 4*i + 2], frame[at + 4*i + 1], frame[at + 4*i]};
            off = double(restored) - double(value(i));
            if (^restored === 1'bx) fail("a value has unknown bits");
            if (tos != TAG && off != 0) fail("an untagged value has changed");
            if (off > 0.0009766 || off < -0.0009766) fail("a value is beyond the bound");
        end
        if ((on_wire < size) !== (tos == TAG)) fail("the frame's length on the wire is wrong");
        $display("%0s: %0d bytes, %0d on the wire", name, size, on_wire);
    end endtask

    task read(input [11:0] from, input [31:0] expected, input [8*60:1] why); begin
        address <= from; ar_valid <= 1;
        @(posedge aclk); while (ar_ready !== 1) @(posedge aclk);
        ar_valid <= 0;
        while (r_valid !== 1) @(posedge aclk);
        if (r_resp !== 0 || r_data !== expected) fail(why);
        @(posedge aclk);
    end endtask
    task write(input [11:0] to, input [31:0] data); begin
        address <= to; w_data <= data; aw_valid <= 1; w_valid <= 1;
        @(posedge aclk);
        fork
            begin while (aw_ready !== 1) @(posedge aclk); aw_valid <= 0; end
            begin while (w_ready !== 1) @(posedge aclk); w_valid <= 0; end
        join
        while (b_valid !== 1) @(posedge aclk);
        if (b_resp !== 0) fail("a write is refused");
        @(posedge aclk);
    end endtask

    initial begin
        repeat (200000) @(posedge aclk);
        fail("a port does not answer");
    end
    initial begin
        if ($bits(nic.s_axis_tx_tkeep) != BYTES) fail("wrong BYTES for this NIC's width");
        repeat (8) @(posedge aclk); aresetn <= 1;
        read(12'h000, 32'h494E4350, "ID is not INCP");
        pass(8'h00, 0, "untagged");
        pass(TAG, 0, "tagged");
        pass(TAG, 1, "in a VLAN");
        read(12'h100, 2, "TX_COMPRESSED is not 2");
        read(12'h140, 1, "TX_UNTAGGED is not 1");
        write(12'h008, 0);                            // CONTROL: both engines off
        read(12'h008, 0, "CONTROL does not keep what is written");
        $display("PASS");
        $finish;
    end
endmodule
