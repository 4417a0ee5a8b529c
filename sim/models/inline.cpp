// SPDX-License-Identifier: BSD-2-Clause
// An inline device with a PHY at each port and a terminal at its serial line, as a shared library with a C
// interface; sim/inline/model.py is its only user. `top.h` names the model (TOP) and defines
// NETWORK_RGMII (1: RGMII, 0: RMII; the host is on RGMII) and DIVISOR, cycles of a bit of the serial line.
//
// The PHYs are at the inner side of the pads' flip-flops: RGMII by its edges, RMII by its dibits. Four clocks
// run, each with its own period. At an edge its domain's outputs are sampled first, then the model is
// evaluated, then the domain's inputs change.

#include "top.h"

#include "inline_phy.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "verilated.h"

namespace inceptionn {
namespace {

enum Domain { kSync, kMac, kHost, kNetwork, kDomains };

class Device {
public:
    Device(uint64_t seed, const uint64_t* periods, int host_speed, int network_speed)
        : context_{new VerilatedContext}, host_{cables[0], host_speed},
#if NETWORK_RGMII
          network_{cables[1], network_speed}
#else
          network_{cables[1]}
#endif
    {
        (void)network_speed;
        context_->randReset(2);
        context_->randSeed(static_cast<int>(seed % 0x7FFFFFFF) + 1);
        top_.reset(new TOP{context_.get()});
        TOP* t = top_.get();
        clocks_ = {&t->clk, &t->mac_clk, &t->host_rx_clk, &t->network_rx_clk};
        resets_ = {&t->rst, &t->mac_rst, &t->host_rx_rst, &t->network_rx_rst};
        t->host_managed = t->network_managed = 0;
        t->rx = 1;
        for (int i = 0; i < kDomains; ++i) {
            period_[i] = periods[i];
            next_[i] = periods[i] / 2 + 777 * i;  // no two in step at first
            *clocks_[i] = 0;
            *resets_[i] = 1;
        }
        drive(kHost);
        drive(kNetwork);
        run(1'000'000);
        for (auto* reset : resets_) *reset = 0;
    }
    ~Device() { top_->final(); }

    void run(uint64_t until) {
        while (true) {
            uint64_t now = next_[0];
            for (int i = 1; i < kDomains; ++i) now = next_[i] < now ? next_[i] : now;
            if (now > until) break;
            time = now;
            for (auto* clock : clocks_) *clock = 0;
            top_->eval();
            for (int i = 0; i < kDomains; ++i) {
                if (next_[i] != now) continue;
                sample(i);
                *clocks_[i] = 1;
            }
            top_->eval();
            for (int i = 0; i < kDomains; ++i) {
                if (next_[i] != now) continue;
                drive(i);
                next_[i] += period_[i];
            }
        }
        time = until;
    }
    void reset(int domain, bool on) { *resets_[domain] = on; }
    void link(int port, int speed, uint64_t period) {
        period_[port == 0 ? kHost : kNetwork] = period;
        if (port == 0) host_.link(speed);
#if NETWORK_RGMII
        if (port == 1) network_.link(speed);
#endif
    }

    std::array<Cable, 2> cables;
    Terminal terminal;
    uint64_t time = 0;
    uint64_t cycles = 0;

private:
    void sample(int domain) {
        TOP* t = top_.get();
        if (domain == kSync) {
            ++cycles;
            terminal.sample(t->tx);
        }
        if (domain == kMac) {
            host_.transmit(t->host_tx, t->host_tx_clock, time);
#if NETWORK_RGMII
            network_.transmit(t->network_tx, t->network_tx_clock, time);
#endif
        }
#if !NETWORK_RGMII
        if (domain == kNetwork) network_.transmit(t->network_tx_en, t->network_txd, time);
#endif
    }
    void drive(int domain) {
        TOP* t = top_.get();
        if (domain == kSync) t->rx = terminal.drive();
        if (domain == kHost) t->host_rx = host_.receive(time);
        if (domain != kNetwork) return;
#if NETWORK_RGMII
        t->network_rx = network_.receive(time);
#else
        const int dibit = network_.receive(time);
        t->network_rxd = dibit & 3;
        t->network_crs_dv = dibit >> 2;
        t->network_rx_er = 0;
#endif
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<TOP> top_;
    Rgmii host_;
#if NETWORK_RGMII
    Rgmii network_;
#else
    Rmii network_;
#endif
    std::array<CData*, kDomains> clocks_, resets_;
    std::array<uint64_t, kDomains> period_, next_;
};

}  // namespace
}  // namespace inceptionn

using inceptionn::Device;
using inceptionn::Frame;

extern "C" {

// Periods in ps of sync, mac, host_rx and network_rx; speeds as RGMII encodes them.
Device* inline_new(uint64_t seed, const uint64_t* periods, int host_speed, int network_speed) {
    return new Device{seed, periods, host_speed, network_speed};
}
void inline_delete(Device* device) { delete device; }
void inline_run(Device* device, uint64_t until) { device->run(until); }
uint64_t inline_time(const Device* device) { return device->time; }
uint64_t inline_cycles(const Device* device) { return device->cycles; }
void inline_reset(Device* device, int domain, int on) { device->reset(domain, on); }
// The link of a port at RGMII from now on: its speed, or -1 for none, and the period of its receive clock.
void inline_link(Device* device, int port, int speed, uint64_t period) { device->link(port, speed, period); }

void inline_send(Device* device, int port, const uint8_t* bytes, uint32_t length, uint64_t start, int good) {
    Frame frame;
    frame.bytes.assign(bytes, bytes + length);
    frame.start = start;
    frame.good = good;
    device->cables[port].to_send.push_back(std::move(frame));
}
int inline_idle(const Device* device, int port) { return device->cables[port].idle(); }

// Length of the oldest frame that left the port, or -1; then what it was.
int64_t inline_waiting(const Device* device, int port) {
    const auto& taken = device->cables[port].taken;
    return taken.empty() ? -1 : static_cast<int64_t>(taken.front().bytes.size());
}
int inline_take(Device* device, int port, uint8_t* bytes, uint64_t* times) {
    auto& taken = device->cables[port].taken;
    const Frame frame = std::move(taken.front());
    taken.pop_front();
    if (!frame.bytes.empty()) std::memcpy(bytes, frame.bytes.data(), frame.bytes.size());
    times[0] = frame.start;
    times[1] = frame.end;
    return frame.good;
}

void inline_say(Device* device, const char* text) { device->terminal.to_send += text; }
// What the device said since the last call, ended by a zero; at most 255 characters.
void inline_hear(Device* device, char* text) {
    std::string& heard = device->terminal.heard;
    const size_t count = heard.copy(text, 255);
    text[count] = 0;
    heard.erase(0, count);
}

}  // extern "C"
