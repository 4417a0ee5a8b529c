// SPDX-License-Identifier: BSD-2-Clause
// AXI4-Stream and AXI4-Lite ends that drive a verilated module cycle by cycle.
//
// A "pipe" is one AXI4-Stream input of the module and the output that its frames leave by, one frame
// out per frame in. The order within a cycle: inputs are set while the clock is low, `eval` settles
// the combinational paths, handshakes are sampled, then the rising edge.

#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "verilated.h"

namespace inceptionn {

#ifndef STREAM_BYTES
#define STREAM_BYTES 32
#endif
constexpr int kBytes = STREAM_BYTES;  // of `tdata`: 4, or a multiple of 32
constexpr int kWords = kBytes / 4;
constexpr int kKeepWords = (kBytes + 31) / 32;
constexpr int kKeepBytes = (kBytes + 7) / 8;

using Keep = std::array<uint32_t, kKeepWords>;  // one bit per byte of `tdata`, byte 0 lowest

// The `tkeep` of a beat whose first n bytes are there.
inline Keep first_bytes(uint32_t n) {
    Keep keep{};
    for (uint32_t i = 0; i < kKeepWords; ++i)
        keep[i] = n >= 32 * i + 32 ? ~0u : n > 32 * i ? (1u << (n - 32 * i)) - 1 : 0;
    return keep;
}

// How many bytes are there, or -1 where they are no run of ones from bit 0 on.
inline int count_bytes(const Keep& keep) {
    int n = 0;
    for (uint32_t word : keep) n += __builtin_popcount(word);
    return keep == first_bytes(n) ? n : -1;
}

// Marsaglia's xorshift64*: small, fast, the same everywhere.
class Random {
public:
    explicit Random(uint64_t seed) : state_{seed * 0x9E3779B97F4A7C15u + 1} {
        if (!state_) state_ = 1;
        for (int i = 0; i < 4; ++i) next();
    }
    uint32_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Du) >> 32);
    }

private:
    uint64_t state_;
};

// Pauses of an AXI4-Stream end: each decision pauses with a probability (of 2^32) for 1..longest cycles.
struct Pause {
    uint32_t probability = 0;
    uint32_t longest = 1;
    uint32_t left = 0;

    bool now(Random& random) {
        if (!left && probability && random.next() < probability) left = 1 + random.next() % longest;
        if (!left) return false;
        --left;
        return true;
    }
};

struct Beat {
    uint32_t data[kWords];
    Keep keep;
    uint32_t user;
    bool last;

    bool operator==(const Beat& o) const {
        return !std::memcmp(data, o.data, sizeof data) && keep == o.keep && user == o.user && last == o.last;
    }
};

// A stream's `tdata`, of one word or of many.
inline WData* words_of(IData& data) { return &data; }
template <class Wide> WData* words_of(Wide& data) { return data.data(); }

// A module's stream port; the width of `tuser` is the only thing in which they differ.
struct Port {
    const char* name;
    WData* data;
    void* keep;  // CData, IData, QData or VlWide: least significant bytes first in each, as on every host supported
    void* user;
    int user_bytes;
    CData* last;
    CData* valid;
    CData* ready;

    Keep get_keep() const {
        Keep value{};
        std::memcpy(value.data(), keep, kKeepBytes);
        return value;
    }
    void set_keep(const Keep& value) const {
        std::memcpy(keep, value.data(), kKeepBytes);
        if (kBytes < 8) *static_cast<CData*>(keep) &= (1 << kBytes % 8) - 1;
    }
    uint32_t get_user() const {
        return user_bytes == 1 ? *static_cast<CData*>(user) : *static_cast<SData*>(user);
    }
    void set_user(uint32_t value) const {
        if (user_bytes == 1)
            *static_cast<CData*>(user) = static_cast<CData>(value);
        else
            *static_cast<SData*>(user) = static_cast<SData>(value);
    }
};

struct FrameRecord {  // read by Python: keep in step with sim/verilated/module.py
    uint64_t first_in, last_in, first_out, last_out;
    uint32_t bytes;
    uint32_t user;
};

struct ProtocolError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const Port& port, uint64_t cycle, const char* what) {
    throw ProtocolError(std::string(port.name) + ", cycle " + std::to_string(cycle) + ": " + what);
}

// When a frame's `user` value is on the input: with TLAST (a bad-frame flag) or with the first beat (a length).
enum class UserAt { kFirst, kLast };

class Source {
public:
    Source(Port port, UserAt user_at, uint64_t seed) : port_{port}, user_at_{user_at}, random_{seed} {}

    Pause pause;

    void push(const uint8_t* bytes, uint32_t length, uint32_t user) {
        queue_.push_back({std::vector<uint8_t>(bytes, bytes + length), user});
    }
    void push(const Beat& beat) { link_.push_back(beat); }  // from another pipe's output, beat by beat
    bool idle() const { return queue_.empty() && link_.empty() && !offering_; }
    size_t link_beats() const { return link_.size(); }
    void clear() {
        queue_.clear();
        link_.clear();
        offering_ = false;
        first_ = true;
        at_ = 0;
        pause.left = 0;
    }

    // Cycles of the first and the last beat of each frame that was accepted and not yet claimed.
    std::deque<std::pair<uint64_t, uint64_t>> accepted;

    void drive() {
        if (!offering_ && !pause.now(random_)) next_beat();
        *port_.valid = offering_;
        if (offering_) return;
        // An idle bus carries noise: nothing may depend on it.
        noise_ ^= random_.next();
        for (int i = 0; i < kWords; ++i) port_.data[i] = noise_ + i;
        Keep keep;
        for (int i = 0; i < kKeepWords; ++i) keep[i] = noise_ + i;
        port_.set_keep(keep);
        *port_.last = noise_ & 1;
        port_.set_user(port_.user_bytes == 1 ? noise_ >> 1 & 1 : noise_ & 0xFFFF);
    }

    void check_closed(uint64_t cycle) const {
        if (*port_.ready) fail(port_, cycle, "TREADY is high in reset");
    }

    bool sample(uint64_t cycle) {  // true if a beat moved
        if (!offering_ || !*port_.ready) return false;
        if (first_) first_cycle_ = cycle;
        first_ = beat_.last;
        if (beat_.last) accepted.emplace_back(first_cycle_, cycle);
        offering_ = false;
        return true;
    }

private:
    struct Frame {
        std::vector<uint8_t> bytes;
        uint32_t user;
    };

    void next_beat() {
        if (!link_.empty()) {
            beat_ = link_.front();
            link_.pop_front();
        } else if (!queue_.empty()) {
            cut_beat();
        } else {
            return;
        }
        offering_ = true;
        for (int i = 0; i < kWords; ++i) port_.data[i] = beat_.data[i];
        port_.set_keep(beat_.keep);
        *port_.last = beat_.last;
        port_.set_user(beat_.user);
    }

    void cut_beat() {
        const Frame& frame = queue_.front();
        const uint32_t length = static_cast<uint32_t>(frame.bytes.size());
        const uint32_t n = length - at_ < kBytes ? length - at_ : kBytes;
        const bool begins = at_ == 0;
        noise_ ^= random_.next();  // absent byte lanes, and `user` where it means nothing, carry noise
        for (int i = 0; i < kWords; ++i) beat_.data[i] = noise_ + i;
        std::memcpy(beat_.data, frame.bytes.data() + at_, n);
        beat_.keep = first_bytes(n);
        at_ += n;
        beat_.last = at_ == length;
        const bool counts = user_at_ == UserAt::kLast ? beat_.last : begins;
        beat_.user = counts ? frame.user : (port_.user_bytes == 1 ? noise_ >> 3 & 1 : noise_ & 0xFFFF);
        if (beat_.last) {
            queue_.pop_front();
            at_ = 0;
        }
    }

    Port port_;
    UserAt user_at_;
    Random random_;
    std::deque<Frame> queue_;
    std::deque<Beat> link_;
    Beat beat_{};
    uint32_t at_ = 0;
    uint32_t noise_ = 0;
    uint64_t first_cycle_ = 0;
    bool offering_ = false;
    bool first_ = true;
};

class Sink {
public:
    Sink(Port port, uint64_t seed) : port_{port}, random_{seed} {}

    Pause pause;
    std::vector<uint8_t> bytes;
    std::vector<FrameRecord> frames;

    void clear() {
        bytes.clear();
        frames.clear();
        held_ = false;
        frame_bytes_ = 0;
        pause.left = 0;
    }

    void check_complete(uint64_t cycle) const {
        if (frame_bytes_) fail(cycle, "an output beat belongs to no frame");
    }

    void check_closed(uint64_t cycle) const {
        if (*port_.valid) fail(cycle, "TVALID is high in reset");
    }

    void drive(bool room) { *port_.ready = room && !pause.now(random_); }

    bool sample(uint64_t cycle, Source& source, Beat* moved) {  // true if a beat moved
        if (!*port_.valid) {
            if (held_) fail(cycle, "TVALID fell before TREADY rose");
            return false;
        }
        Beat beat;
        for (int i = 0; i < kWords; ++i) beat.data[i] = port_.data[i];
        beat.keep = port_.get_keep();
        beat.user = port_.get_user();
        beat.last = *port_.last;
        if (held_ && !(beat == beat_)) fail(cycle, "the payload changed while TVALID waited for TREADY");
        beat_ = beat;
        held_ = !*port_.ready;
        if (held_) return false;
        take(cycle, source);
        *moved = beat;
        return true;
    }

private:
    void take(uint64_t cycle, Source& source) {
        const int n = count_bytes(beat_.keep);
        if (n <= 0) fail(cycle, "TKEEP is not a run of ones from bit 0");
        if (!beat_.last && n != kBytes) fail(cycle, "TKEEP is not all ones before TLAST");
        if (!frame_bytes_) first_cycle_ = cycle;
        const auto* raw = reinterpret_cast<const uint8_t*>(beat_.data);
        bytes.insert(bytes.end(), raw, raw + n);
        frame_bytes_ += n;
        if (!beat_.last) return;
        if (source.accepted.empty()) fail(cycle, "a frame ended whose last beat has not been accepted");
        const auto in = source.accepted.front();
        source.accepted.pop_front();
        frames.push_back({in.first, in.second, first_cycle_, cycle, frame_bytes_, beat_.user});
        frame_bytes_ = 0;
    }

    [[noreturn]] void fail(uint64_t cycle, const char* what) const { inceptionn::fail(port_, cycle, what); }

    Port port_;
    Random random_;
    Beat beat_{};
    uint64_t first_cycle_ = 0;
    uint32_t frame_bytes_ = 0;
    bool held_ = false;
};

struct Pipe {
    Source source;
    Sink sink;
};

}  // namespace inceptionn
