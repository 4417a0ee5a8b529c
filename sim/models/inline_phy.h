// SPDX-License-Identifier: BSD-2-Clause
// What is at an inline device's pins in simulation: a cable with a PHY at each port, and a terminal at the
// serial line. DIVISOR is the cycles of a bit of that line.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace inceptionn {

constexpr int kGapOctets = 12;

inline uint32_t crc32(const uint8_t* data, size_t size) {
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
    // What is on the line is lost.
    void cut() {
        line_.clear();
        got_.clear();
        at_ = 0;
        gap_ = kGapOctets;
    }

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

    // A link of another speed, which begins in mid-frame, or none (-1).
    void link(int speed) {
        up_ = speed >= 0;
        if (up_) speed_ = speed;
        cable_.cut();
        octet_ = -1;
        phase_ = 0;
        half_ = false;
    }
    uint16_t receive(uint64_t now) {
        const bool first = phase_ == 0;
        if (first) octet_ = up_ ? cable_.next(now) : -1;
        phase_ = speed_ == 2 ? 0 : !phase_;
        const int status = up_ | speed_ << 1 | 8;
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
        if (!up_) return;
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
    bool up_ = true, level_ = false, half_ = false;
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

}  // namespace inceptionn
