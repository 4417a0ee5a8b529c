// SPDX-License-Identifier: BSD-2-Clause
// An inline device with a PHY at each port and a terminal at its serial line, as a shared library with a C
// interface; sim/inline/model.py is its only user. `top.h` names the model (TOP) and defines
// NETWORK_RGMII (1: RGMII, 0: RMII; the host is on RGMII) and DIVISOR, cycles of a bit of the serial line.
//
// The PHYs are at the inner side of the pads' flip-flops: RGMII by its edges, RMII by its dibits. Four clocks
// run, each with its own period. At an edge its domain's outputs are sampled first, then the model is
// evaluated, then the domain's inputs change.

#include "top.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "verilated.h"

namespace inceptionn {
namespace {

constexpr int kGapOctets = 12;

uint32_t crc32(const uint8_t* data, size_t size) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; ++i) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

struct Frame {
    std::vector<uint8_t> bytes;  // without preamble and FCS
    uint64_t start = 0, end = 0;  // ps: of the preamble's first octet; to be sent: not before `start`
    bool good = true;             // to be sent: false makes a wrong FCS
};

// What a cable carries, octet by octet: the PHY's side towards the MAC and from it.
class Cable {
public:
    std::deque<Frame> to_send;
    std::deque<Frame> taken;

    // The next octet towards the MAC, or -1 between frames.
    int next(uint64_t now) {
        if (at_ < line_.size()) return line_[at_++];
        if (gap_ > 0) return --gap_, -1;
        if (to_send.empty() || to_send.front().start > now) return -1;
        const Frame frame = std::move(to_send.front());
        to_send.pop_front();
        line_.assign(7, 0x55);
        line_.push_back(0xD5);
        line_.insert(line_.end(), frame.bytes.begin(), frame.bytes.end());
        uint32_t fcs = crc32(frame.bytes.data(), frame.bytes.size());
        if (!frame.good) fcs ^= 0x00010000u;
        for (int i = 0; i < 4; ++i) line_.push_back(static_cast<uint8_t>(fcs >> 8 * i));
        gap_ = kGapOctets;
        at_ = 1;
        return line_[0];
    }
    bool idle() const { return at_ >= line_.size() && to_send.empty(); }

    // An octet from the MAC, or the end of its frame.
    void put(uint8_t octet, bool error, uint64_t now) {
        if (got_.empty()) {
            start_ = now;
            error_ = false;
        }
        got_.push_back(octet);
        error_ |= error;
    }
    void end(uint64_t now) {
        if (got_.empty()) return;
        size_t head = 0;
        while (head < got_.size() && got_[head] == 0x55) ++head;
        Frame frame;
        frame.start = start_;
        frame.end = now;
        frame.good = false;
        if (head == 7 && head + 1 + 64 <= got_.size() && got_[head] == 0xD5) {
            const uint8_t* data = got_.data() + head + 1;
            const size_t size = got_.size() - head - 5;
            uint32_t fcs = 0;
            for (int i = 0; i < 4; ++i) fcs |= static_cast<uint32_t>(data[size + i]) << 8 * i;
            frame.good = !error_ && fcs == crc32(data, size);
            frame.bytes.assign(data, data + size);
        }
        taken.push_back(std::move(frame));
        got_.clear();
    }

private:
    std::vector<uint8_t> line_, got_;
    size_t at_ = 0;
    int gap_ = 0;
    uint64_t start_ = 0;
    bool error_ = false;
};

// A PHY at RGMII (version 2.0) with in-band status. Edges: data 3..0 and control of the rising edge, then the
// same of the falling one.
class Rgmii {
public:
    Rgmii(Cable& cable, int speed) : cable_{cable}, speed_{speed} {}

    uint16_t receive(uint64_t now) {
        const bool first = phase_ == 0;
        if (first) octet_ = cable_.next(now);
        phase_ = speed_ == 2 ? 0 : !phase_;
        const int status = 1 | speed_ << 1 | 8;
        if (octet_ < 0) return static_cast<uint16_t>(status | status << 5);
        const int low = octet_ & 15, high = octet_ >> 4;
        const int rise = speed_ == 2 || first ? low : high, fall = speed_ == 2 ? high : rise;
        return static_cast<uint16_t>(rise | 16 | (fall | 16) << 5);
    }
    void transmit(uint16_t edges, uint8_t clock, uint64_t now) {
        for (int half = 0; half < 2; ++half) {
            const bool level = clock >> half & 1;
            const int pins = edges >> 5 * half & 31;
            if (level && !level_) rise_ = pins;
            if (!level && level_) take(rise_, pins, now);
            level_ = level;
        }
    }

private:
    void take(int rise, int fall, uint64_t now) {
        const bool active = rise >> 4, error = active != static_cast<bool>(fall >> 4);
        if (!active) {
            cable_.end(now);
            half_ = false;
        } else if (speed_ == 2) {
            cable_.put(static_cast<uint8_t>((rise & 15) | (fall & 15) << 4), error, now);
        } else if (!half_) {
            low_ = rise & 15;
            half_ = true;
        } else {
            cable_.put(static_cast<uint8_t>(low_ | (rise & 15) << 4), error, now);
            half_ = false;
        }
    }

    Cable& cable_;
    int speed_;
    int octet_ = -1, phase_ = 0, rise_ = 0, low_ = 0;
    bool level_ = false, half_ = false;
};

// A PHY at RMII (version 1.2) at 100 Mbit/s: two bits per cycle of the reference clock.
class Rmii {
public:
    explicit Rmii(Cable& cable) : cable_{cable} {}

    // Bits 1..0: data; bit 2: carrier and data valid.
    int receive(uint64_t now) {
        if (phase_ == 0) octet_ = cable_.next(now);
        const int dibit = octet_ < 0 ? 0 : 4 | (octet_ >> 2 * phase_ & 3);
        phase_ = (phase_ + 1) % 4;
        return dibit;
    }
    void transmit(bool enable, int data, uint64_t now) {
        if (!enable) {
            cable_.end(now);
            count_ = 0;
            return;
        }
        value_ = value_ >> 2 | data << 6;
        if (++count_ % 4 == 0) cable_.put(static_cast<uint8_t>(value_), false, now);
    }

private:
    Cable& cable_;
    int octet_ = -1, phase_ = 0, count_ = 0, value_ = 0;
};

// The other end of the serial line, cycle by cycle of `sync`.
class Terminal {
public:
    std::string to_send, heard;

    bool drive() {
        if (left_ == 0) {
            if (to_send.empty()) return true;
            bits_ = static_cast<uint8_t>(to_send[0]) << 1 | 1 << 9;
            to_send.erase(0, 1);
            left_ = 10 * DIVISOR;
        }
        return bits_ >> (10 - (left_-- + DIVISOR - 1) / DIVISOR) & 1;
    }
    void sample(bool level) {
        if (since_ < 0) {
            if (!level) since_ = value_ = 0;
            return;
        }
        ++since_;
        if ((since_ - DIVISOR / 2) % DIVISOR) return;
        const int bit = (since_ - DIVISOR / 2) / DIVISOR;
        if (bit >= 1 && bit <= 8) value_ |= level << (bit - 1);
        if (bit == 9) {
            if (level) heard.push_back(static_cast<char>(value_));
            since_ = -1;
        }
    }

private:
    int left_ = 0, bits_ = 0, since_ = -1, value_ = 0;
};

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
