// SPDX-License-Identifier: BSD-2-Clause
// A verilated module as a shared library with a C interface; sim/verilated/module.py is its only user.
//
// `top.h` is written for each module by in_process.py. It names the model (`TOP`) and its ports:
//   PIPES(PIPE)   one PIPE(input, output, user_at) per pipe
//   INPUTS(INPUT) one INPUT(port) per plain input
//   STREAM_BYTES  width of every stream, 32 if not defined
//   AXI_LITE      defined if the module has an `s_axil` port
//   CLOCKS(CLOCK) defined if each pipe's engine has a clock of its own: one CLOCK(port) per pipe
//   TRACE         class that writes waves, if the model can

#include "top.h"

#include "harness.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

namespace inceptionn {
namespace {

enum Status : int { kDone = 0, kRunning = 1, kHung = 2, kFailed = 3 };

constexpr uint64_t kBusPatience = 10000;
constexpr size_t kLinkBeats = 16;
constexpr uint32_t kDrain = 128;    // cycles after which an empty engine has come to rest, reports and all
constexpr uint32_t kWakeUp = 4096;  // the same after reset: the flow table is cleared entry by entry

class Model {
public:
    explicit Model(uint64_t seed) : context_{new VerilatedContext}, seed_{seed} {
        context_->randReset(2);
        context_->randSeed(static_cast<int>(seed % 0x7FFFFFFF) + 1);
#ifdef TRACE
        context_->traceEverOn(true);
#endif
        top_.reset(new TOP{context_.get()});
        TOP* t = top_.get();
#define PORT(name)                                                                               \
    Port {                                                                                       \
        #name, words_of(t->name##_tdata), &t->name##_tkeep, &t->name##_tuser,                    \
            static_cast<int>(sizeof t->name##_tuser), &t->name##_tlast, &t->name##_tvalid,       \
            &t->name##_tready                                                                    \
    }
#define PIPE(input, output, at)                                                                  \
    pipes.push_back({Source{PORT(input), UserAt::at, seed * 64 + 2 * pipes.size() + 1},          \
                     Sink{PORT(output), seed * 64 + 2 * pipes.size() + 2}});
        PIPES(PIPE)
#undef PIPE
#ifdef CLOCKS
#define CLOCK(port) clocks_.push_back(&t->port);
        CLOCKS(CLOCK)
#undef CLOCK
        for (auto* clock : clocks_) *clock = 0;
#endif
        awake_.assign(pipes.size(), kWakeUp);
#define INPUT(name)  \
    t->name = 0;     \
    inputs[#name] = [t](uint64_t value) { t->name = value; };
        INPUTS(INPUT)
#undef INPUT
        reset(16, false);
    }

    ~Model() {
#ifdef TRACE
        if (trace_) trace_->close();
#endif
        top_->final();
    }

    void trace(const char* path) {
#ifdef TRACE
        trace_.reset(new TRACE);
        top_->trace(trace_.get(), 99);
        trace_->open(path);
#else
        throw std::runtime_error(std::string("built without waves: ") + path);
#endif
    }

    // `low` cycles in reset, in which nothing is offered and nothing accepted. Then as many of the same kind, since
    // `aresetn` may be registered inside; `strict`: none, and the outputs are checked from the first cycle on.
    void reset(uint32_t low, bool strict) {
        for (auto& pipe : pipes) {
            pipe.source.clear();
            pipe.source.accepted.clear();
            pipe.sink.clear();
        }
        since_progress_ = 0;
        release_bus();
        wake(kWakeUp);
        for (uint32_t i = 0; i < (strict ? low : 2 * low); ++i) {
            top_->aresetn = i >= low;
            for (auto& pipe : pipes) {
                pipe.source.drive();
                pipe.sink.drive(false);
            }
            settle();
            if (strict) check_closed();
            clock();
        }
        top_->aresetn = 1;
    }

    // At most `cycles` cycles; done when no pipe expects another frame and `quiet` more cycles brought nothing.
    Status run(uint64_t cycles, uint64_t patience, uint64_t quiet) {
        for (uint64_t end = cycle + cycles; cycle < end;) {
            if (step()) since_progress_ = 0;
            if (finished() && since_progress_ >= quiet) {
                for (auto& pipe : pipes) pipe.sink.check_complete(cycle);
                return kDone;
            }
            if (!finished() && since_progress_ >= patience) return kHung;
        }
        return kRunning;
    }

    void send(int pipe, const uint8_t* bytes, uint32_t length, uint32_t user) {
        pipes[pipe].source.push(bytes, length, user);
        since_progress_ = 0;
    }

    uint32_t bus(bool write, uint32_t address, uint32_t value, uint32_t strobes, uint32_t* response);

    std::vector<Pipe> pipes;
    std::map<std::string, std::function<void(uint64_t)>> inputs;
    std::string error;
    uint64_t cycle = 0;
    bool loopback = false;  // the first pipe's output feeds the second pipe's input

private:
    static bool busy(const Pipe& pipe) { return !pipe.source.idle() || !pipe.source.accepted.empty(); }

    bool finished() const {
        for (const auto& pipe : pipes)
            if (busy(pipe)) return false;
        return true;
    }

    // Every engine runs for at least this number of cycles from now on.
    void wake(uint32_t cycles) {
        for (auto& awake : awake_) awake = std::max(awake, cycles);
    }

    // Whether a pipe's engine runs in this cycle. It does without fail if its clock is not its own.
    bool runs(size_t i) const { return clocks_.empty() || awake_[i]; }

    // Nothing is taken and nothing offered, from the first cycle of a reset on.
    void check_closed() const {
        for (const auto& pipe : pipes) {
            pipe.source.check_closed(cycle);
            pipe.sink.check_closed(cycle);
        }
#ifdef AXI_LITE
        if (top_->s_axil_awready || top_->s_axil_wready || top_->s_axil_arready || top_->s_axil_bvalid ||
            top_->s_axil_rvalid)
            throw ProtocolError("s_axil, cycle " + std::to_string(cycle) + ": READY or VALID is high in reset");
#endif
    }

    void release_bus() {
#ifdef AXI_LITE
        top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_arvalid = 0;
        top_->s_axil_bready = top_->s_axil_rready = 0;
#endif
    }

    void settle() {
        top_->eval();
        dump(0);
    }

    void clock() {
        top_->aclk = 1;
        for (size_t i = 0; i < clocks_.size(); ++i) *clocks_[i] = awake_[i] != 0;
        top_->eval();
        dump(1);
        top_->aclk = 0;
        for (size_t i = 0; i < clocks_.size(); ++i) {
            *clocks_[i] = 0;
            awake_[i] -= awake_[i] != 0;
        }
        ++cycle;
    }

    void dump(int half) {
#ifdef TRACE
        if (trace_) trace_->dump(2 * cycle + half);
#else
        (void)half;
#endif
    }

    bool step() {
        for (size_t i = 0; i < pipes.size(); ++i) {
            if (busy(pipes[i])) awake_[i] = std::max(awake_[i], kDrain);
            if (!runs(i)) continue;
            pipes[i].source.drive();
            pipes[i].sink.drive(!(loopback && i == 0) || pipes[1].source.link_beats() < kLinkBeats);
        }
        settle();
        bool moved = false;
        for (size_t i = 0; i < pipes.size(); ++i) moved |= runs(i) && pipes[i].source.sample(cycle);
        for (size_t i = 0; i < pipes.size(); ++i) {
            Beat beat;
            if (!runs(i) || !pipes[i].sink.sample(cycle, pipes[i].source, &beat)) continue;
            moved = true;
            if (loopback && i == 0) pipes[1].source.push(beat);
        }
        clock();
        ++since_progress_;
        return moved;
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<TOP> top_;
#ifdef TRACE
    std::unique_ptr<TRACE> trace_;
#endif
    std::vector<CData*> clocks_;    // of each pipe's engine; none if they all have `aclk`
    std::vector<uint32_t> awake_;   // cycles that each pipe's engine still runs, at least
    uint64_t seed_;
    uint64_t since_progress_ = 0;
};

// One AXI4-Lite transfer, while the streams go on. Returns the data read.
uint32_t Model::bus(bool write, uint32_t address, uint32_t value, uint32_t strobes, uint32_t* response) {
#ifdef AXI_LITE
    TOP* t = top_.get();
    wake(kDrain);  // settings reach the engines through registers of theirs
    bool address_due = true, data_due = write;
    for (uint64_t i = 0; i < kBusPatience; ++i) {
        t->s_axil_awvalid = write && address_due;
        t->s_axil_awaddr = address;
        t->s_axil_awprot = 0;
        t->s_axil_wvalid = data_due;
        t->s_axil_wdata = value;
        t->s_axil_wstrb = strobes;
        t->s_axil_arvalid = !write && address_due;
        t->s_axil_araddr = address;
        t->s_axil_arprot = 0;
        t->s_axil_bready = write;
        t->s_axil_rready = !write;
        top_->eval();
        const bool address_goes = write ? t->s_axil_awready : t->s_axil_arready;
        const bool data_goes = t->s_axil_wready;
        const bool answered = write ? t->s_axil_bvalid : t->s_axil_rvalid;
        *response = write ? t->s_axil_bresp : t->s_axil_rresp;
        const uint32_t data = t->s_axil_rdata;
        step();
        if (address_goes) address_due = false;
        if (data_goes) data_due = false;
        if (!answered) continue;
        release_bus();
        if (address_due || data_due) throw ProtocolError("s_axil: the response came before the request was taken");
        return data;
    }
    throw ProtocolError("s_axil: no answer within " + std::to_string(kBusPatience) + " cycles");
#else
    (void)write, (void)address, (void)value, (void)strobes, (void)response;
    throw std::runtime_error("the module has no s_axil port");
#endif
}

template <class F>
int guarded(Model* model, F f) {
    try {
        return f();
    } catch (const std::exception& e) {
        model->error = e.what();
        return kFailed;
    }
}

}  // namespace
}  // namespace inceptionn

using inceptionn::Model;

extern "C" {

Model* model_new(uint64_t seed) { return new Model{seed}; }
void model_delete(Model* model) { delete model; }
uint64_t model_cycle(const Model* model) { return model->cycle; }
const char* model_error(const Model* model) { return model->error.c_str(); }
void model_loopback(Model* model, int on) { model->loopback = on; }

int model_reset(Model* model, uint32_t low, int strict) {
    return guarded(model, [=] { return model->reset(low, strict), 0; });
}

int model_trace(Model* model, const char* path) {
    return guarded(model, [=] { return model->trace(path), 0; });
}

int model_input(Model* model, const char* name, uint64_t value) {
    return guarded(model, [=] { return model->inputs.at(name)(value), 0; });
}

// Probabilities are in units of 2^-32 and hold per decision; a pause lasts 1..longest cycles.
void model_pause(Model* model, int pipe, int source, uint32_t probability, uint32_t longest) {
    auto& p = model->pipes[pipe];
    (source ? p.source.pause : p.sink.pause) = {probability, longest ? longest : 1, 0};
}

// `count` frames back to back in `bytes`, frame i of lengths[i] > 0 bytes.
void model_send(Model* model, int pipe, const uint8_t* bytes, const uint32_t* lengths, const uint32_t* users,
                uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
        model->send(pipe, bytes, lengths[i], users[i]);
        bytes += lengths[i];
    }
}

int model_run(Model* model, uint64_t cycles, uint64_t patience, uint64_t quiet) {
    return guarded(model, [=] { return model->run(cycles, patience, quiet); });
}

uint64_t model_frames(const Model* model, int pipe) { return model->pipes[pipe].sink.frames.size(); }
uint64_t model_bytes(const Model* model, int pipe) { return model->pipes[pipe].sink.bytes.size(); }

// Copies what has come out of a pipe, complete frames only, and forgets it.
void model_collect(Model* model, int pipe, uint8_t* bytes, inceptionn::FrameRecord* frames) {
    auto& sink = model->pipes[pipe].sink;
    std::copy(sink.bytes.begin(), sink.bytes.end(), bytes);
    std::copy(sink.frames.begin(), sink.frames.end(), frames);
    sink.bytes.clear();
    sink.frames.clear();
}

int model_bus(Model* model, int write, uint32_t address, uint32_t value, uint32_t strobes, uint32_t* data,
              uint32_t* response) {
    return guarded(model, [=] { return *data = model->bus(write, address, value, strobes, response), 0; });
}

}  // extern "C"
