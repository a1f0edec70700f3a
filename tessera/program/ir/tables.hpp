// What a program's ops refer to: units, segments, buckets, values, numbers and axes, as plain data.
// Parameters are listed here once: the run storey builds its flat buffers from these tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/box.hpp"

namespace tessera::program {

enum class Dtype : std::uint8_t { fp32, fp64, bf16, fp16 };
constexpr std::int64_t bytes_of(Dtype dtype) {
  return dtype == Dtype::fp64 ? 8 : dtype == Dtype::fp32 ? 4 : 2;
}

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  shift,
  broadcast
};

// Inside of a piece. Bytes are those of the whole array: what an all-gather makes, what a reduce-scatter
// takes, what a rank brings to any other.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int16_t over = 0;  // axis set
  std::int64_t bytes = 0;
  bool operator==(const Collective&) const = default;
};

// What happens to a value between the segment that writes it and the one that reads it, and to its gradient
// on the way back, by ops of their own; each is nothing or one collective.
struct Exchange {
  std::vector<Collective> forward, backward;
  bool operator==(const Exchange&) const = default;
};

// One change to what memory holds while a piece runs. Storages are named within their unit, a gradient's name
// begins with "d."; a storage is there while the running code, the tape or weight work holds it. What a
// segment touches and does not make is a value or gradient that comes from outside (footprint.hpp).
struct AllocationEvent {
  enum class Act : std::uint8_t {
    make,    // the code holds `storage`, which has `bytes`
    drop,    // the code releases it
    tape,    // the tape holds it too, until it is untaped
    untape,  // a backward no longer needs it
    sum,     // the gradient `storage` is added to `other`, in place if nothing else holds that one, and is
             // then called `storage`
    defer,   // the product of `storage` and `other` goes into a weight's gradient, by way of `scratch_bytes`;
             // weight work holds both until then
  };
  Act act = Act::make;
  std::string storage;
  std::int64_t bytes = 0;
  std::string other;
  std::int64_t other_bytes = 0, scratch_bytes = 0;
  bool operator==(const AllocationEvent&) const = default;
};

// A function from values to values, which the model finds by its name. `enter` takes a value from the
// residual stream to all ranks of tp; `leave` adds up the values of these ranks and puts the sum back on the
// stream. Both are calls inside of a piece, or exchanges between two pieces.
struct Step {
  enum class Kind : std::uint8_t { work, enter, leave };
  std::string name;
  std::vector<std::string> reads, writes, parameters;
  Kind kind = Kind::work;
  bool is_linear = false;  // work whose backward needs neither what it reads nor what it writes
  bool operator==(const Step&) const = default;
};

// The part of a piece's forward that serves the result of one step alone: no backward needs what it brings or
// computes on the way. A recomputation omits it where nothing needs the result (work.hpp).
struct ResultWork {
  std::int16_t step = -1;                       // index into Piece::steps; at -1 never omitted
  std::uint32_t first_call = 0, num_calls = 0;  // of Piece::collectives
  double flops = 0;                             // of Piece::flops
  std::int64_t bytes = 0;                       // of Piece::bytes_read and bytes_written
  bool is_kept = false;  // the result of the forward is still there: a recomputation always omits the work
  bool operator==(const ResultWork&) const = default;
};

struct PieceLoss {
  std::string name;               // of the number
  std::string tokens = "tokens";  // of the number that it is divided by
  bool in_parts = false;          // ranks of tp have a part of the sum each, not all of it
  bool operator==(const PieceLoss&) const = default;
};

// A part of a unit for one micro-batch on one rank.
struct Piece {
  std::string name;
  double flops = 0;                   // of the forward
  double backward_flops = 2 * flops;  // of both halves: each product's input and weight gradient
  double repeated_flops = 0;          // of `flops`, what other ranks compute too; twice that backward
  bool is_undivided = false;          // its input half computes what the weight half adds
  std::int64_t bytes_read = 0, bytes_written = 0;  // memory traffic of the forward
  std::int64_t tape_bytes = 0;                     // kept for the backward, the segment's inputs not counted
  std::int64_t work_bytes = 0;                     // kept from backward_input to backward_weight
  std::int64_t scratch_bytes = 0;                  // held only while its forward runs
  std::int64_t backward_scratch_bytes = 0;         // held only while its backward runs
  // Bytes in the order in which they come and go, of which the four above are the sums; none: the sums are
  // all that is known.
  std::vector<AllocationEvent> forward_events, backward_events;
  std::int64_t channels = 0;               // of its output
  std::int64_t token_parts = 1;            // of how many equal parts of the rank's tokens its output is one
  std::vector<std::string> reads, writes;  // names of values
  std::vector<std::string> parameters;     // names of those that it reads
  std::vector<std::string> forward_only;   // of these, matrices that its backward does not read
  std::vector<PieceLoss> losses;           // that it adds to, in the order of its unit's outcome
  std::vector<Step> steps;                 // that it is made of; none: it is run as one
  std::vector<Collective> collectives,
      backward_collectives;               // in the order of the calls, of a full micro-batch
  std::vector<ResultWork> result_work;    // parts of its forward, without overlap
  std::vector<Exchange> exchanges;        // of what it writes, in that order; empty: none
  std::vector<std::int64_t> write_bytes;  // of what it writes, on one rank; empty: all are of its channels
  bool operator==(const Piece&) const = default;
};

struct Unit {
  std::string name;  // embedding, block.3, head
  std::vector<Piece> pieces;
  bool operator==(const Unit&) const = default;
};

struct Loss {
  std::uint32_t tokens = 0, loss = 0;  // numbers: its divisor, and where its sum goes
  bool operator==(const Loss&) const = default;
};

// A run of pieces differentiated as one autograd graph on a rank.
struct Segment {
  std::uint32_t unit = 0, first_piece = 0, num_pieces = 0;
  std::vector<std::uint32_t> reads, writes;  // values
  std::vector<std::uint32_t> ends;           // of `reads`: those whose last reader this segment's backward is
  std::vector<std::uint32_t> buckets;
  std::vector<std::uint32_t> forward_only;  // of `buckets`: those whose weights its backward does not read
  std::vector<Loss> losses;
  bool recomputed = false;  // its forward keeps no tape: recompute makes it before the backward
  bool operator==(const Segment&) const = default;
};

struct Init {
  enum class Kind : std::uint8_t { normal, ones, zeros } kind = Kind::normal;
  double std = 0;  // normal
  bool operator==(const Init&) const = default;
};

// One dim of a parameter, in so many equal parts.
struct DimCut {
  std::int16_t dim = 0;
  std::int64_t parts = 1;
  bool operator==(const DimCut&) const = default;
};

// Or the part of one that a rank holds, if its bucket is cut.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;  // of the part
  std::int64_t offset = 0;          // in elements, from the start of the bucket
  Init init;
  std::vector<DimCut> cuts;  // of the whole; parts are numbered with the last varying fastest
  std::int64_t elements() const;
  std::vector<std::int64_t> whole_shape() const;
  // Where in the whole the part of this number lies.
  Box box(std::int64_t part) const;
  std::string cut_text() const;  // "S(0)", "S(0, 2)"
  bool operator==(const Parameter&) const = default;
};

// Of a parameter on one axis: R equal with partial gradients, I equal with equal gradients, S split.
enum class Placement : std::uint8_t { replicated, invariant, sharded };
struct AxisPlacement {
  std::int16_t axis = 0;  // index into Tables::axes
  Placement placement = Placement::replicated;
  bool operator==(const AxisPlacement&) const = default;
};

// How `step` changes a bucket: as training.optimizer says, or by a fixed amount against the sign of what was
// added up for it, which is no gradient of the loss then: it has no part in norm, clipping and loss scale.
enum class UpdateRule : std::uint8_t { optimizer, sign };

inline constexpr std::int64_t kBucketAlignment = 64;  // elements: a shard's size is a multiple

// How values travel: unchanged; rounded to bf16; rounded to 8 bits, with a scale for each block; or as the
// product of two thin matrices, whose error is added the next time.
enum class Wire : std::uint8_t { exact, bf16, int8, thin };

// A flat buffer of parameters with one placement, dtype and optimizer rule. A rank holds the buckets that its
// segments read: along the stage axis a bucket lies on one rank, or, if it is tied, on two of them with
// partial gradients.
struct Bucket {
  std::string name;
  std::vector<Parameter> parameters;
  std::int64_t elements = 0;  // with the padding at the end
  bool trainable = true;
  bool weight_decay = true;
  UpdateRule rule = UpdateRule::optimizer;
  double sign_rate = 0;        // sign: that amount
  bool full_resident = false;  // Full is the Shard itself: whole on each rank, and computed with as stored
  bool delayed = false;        // Full is one version behind: gathered in the step before, ahead of its update
  std::vector<AxisPlacement> placement;
  // The gradient is partial over the axes of reduced_over and shared_over together (the R axes). `reduce`
  // sums WeightGrad over reduced_over into ShardGrad (each rank's part of it, if the bucket is sharded); a
  // last one with kOfShard sums ShardGrad over shared_over: replicas of the shard, and stages that share a
  // tied bucket.
  std::int16_t reduced_over = -1, shared_over = -1;
  // Axis set whose ranks hold one part each of every parameter, as its cuts say; -1: each holds them whole.
  std::int16_t cut_over = -1;
  // Axis set over which Shard, ShardGrad and State are cut; -1: whole. The axes of reduced_over, by a channel
  // of its own.
  std::int16_t sharded_over = -1;
  Dtype storage = Dtype::fp32, compute = Dtype::fp32, gradient = Dtype::fp32;
  std::int64_t state_bytes = 8;  // optimizer state per element
  Wire reduced_as = Wire::exact, gathered_as = Wire::exact;
  std::int64_t block = 64, rank = 4;  // int8: elements of a scale; thin: columns
  bool operator==(const Bucket&) const = default;
};

constexpr bool counts_in_norm(const Bucket& bucket) {
  return bucket.trainable && bucket.rule == UpdateRule::optimizer;
}

// A tensor [tokens of the micro-batch / token_parts, channels].
struct Value {
  std::string name;
  std::int64_t bytes = 0;  // of one whole micro-batch
  std::int64_t channels = 0;
  std::int64_t token_parts = 1;
  Exchange exchange;  // bytes are then those of the larger
  Dtype dtype = Dtype::fp32;
  bool operator==(const Value&) const = default;
};

// tokens: those that count in a loss; positions: those that are no padding; tokens_ahead: those whose token
// after the next counts.
enum class Role : std::uint8_t { tokens, positions, tokens_ahead, loss, norm, finite };
struct Number {
  std::string name;
  Role role = Role::tokens;
  std::vector<std::int16_t> partial_over;  // indices into Tables::axes: along these, ranks hold parts of it
  std::vector<std::int16_t> summed_along;  // axis sets, in order; if empty, those of sum_sets
  bool operator==(const Number&) const = default;
};

// What the ranks along an axis divide among them.
enum class AxisRole : std::uint8_t { stages, samples, positions, channels };

// The same for experts, which see some of the axes, or factors of them, in another way: as ranks with tokens
// of their own (none of whose experts differ), with experts of their own, or with a slice of each expert's
// matrices.
enum class ExpertRole : std::uint8_t { data, experts, slices };

struct Axis {
  std::string name;  // "dp_shard", or of a factor "dp_shard.ep"
  std::int64_t size = 1;
  AxisRole role = AxisRole::samples;
  bool shards = false;  // ZeRO cuts buckets along it
  ExpertRole for_experts = ExpertRole::data;
  // Of its ranks the last so many are parameter servers: see Note [Servers] in passes/servers.hpp.
  std::int64_t servers = 0;
  bool operator==(const Axis&) const = default;
};

struct AxisSet {
  std::string name;
  std::vector<std::int16_t> axes;  // indices into Tables::axes, outermost first
  std::vector<std::int64_t> only;  // coordinates on the outermost axis that belong to it; empty: all
  bool operator==(const AxisSet&) const = default;
};

struct Phase {
  std::int16_t axes = -1;  // the link it holds; -1: none, computes
  double seconds = 0;
  bool operator==(const Phase&) const = default;
};

struct Cost {
  std::vector<Phase> phases;
  std::int64_t bytes = 0;
  bool host_waits = false;
  bool operator==(const Cost&) const = default;
};

struct Tables {
  std::vector<Unit> units;
  std::vector<Segment> segments;
  std::vector<Bucket> buckets;
  std::vector<Value> values;
  std::vector<Number> numbers;
  std::vector<Axis> axes;  // of the mesh, outermost first; ranks are numbered row-major
  std::vector<AxisSet> axis_sets;
  std::vector<std::int16_t> groups;  // axis sets that need process groups, in the order they are made
  std::vector<Cost> costs;
  std::int16_t stage_axis = -1;  // the axis that divides the segments; -1: each rank computes all of them
  std::int16_t values_over = -1, gradients_over = -1;  // axis sets of that axis: a channel each
  std::int32_t num_micro = 1;
  // The next step begins while ops of this one are under way (Note [Steps that overlap] in
  // passes/updates.hpp).
  bool steps_overlap = false;
  // Optimizer steps come after the norm of all gradients, which clips them, and the verdict on whether it is
  // finite; false: each as soon as its own gradient is there, and the norm is only told.
  bool updates_wait = true;
  std::vector<std::uint32_t> class_of_rank;  // index into Program::classes; its size is the number of ranks

  std::int64_t size_of(std::int16_t axis_set) const;                    // ranks in one group; of -1: 1
  std::int16_t set_called(std::string_view name) const;                 // -1: no axis set has this name
  std::vector<std::int16_t> axes_that(bool (*are)(const Axis&)) const;  // outermost first
  bool meets_other_stages(std::int16_t axis_set) const;                 // of -1: no
  bool has_servers() const;
  // Whether servers hold it, of which each has a slice; and workers that use it, for each of them.
  bool is_served(const Bucket& bucket) const;
  std::int64_t num_workers(const Bucket& bucket) const;
  // Into how many Shard, ShardGrad and State are cut.
  std::int64_t num_slices(const Bucket& bucket) const;
  bool operator==(const Tables&) const = default;
};

// One set, and so one channel, per name.
std::int16_t set_of(AxisSet set, Tables& tables);

// The axis sets over which a number is summed, one after the other, until no rank holds only a part.
std::vector<std::int16_t> sum_sets(const Number& number, const Tables& tables);

// Fills Segment::ends: backwards run in reverse, so a value ends with the first segment that reads it.
void assign_ends(Tables& tables);

// Lays parameters side by side in the order given, pads the end so that each of num_shards parts is aligned,
// and sets offsets and elements.
void lay_out(Bucket& bucket, std::int64_t num_shards = 1);

}  // namespace tessera::program
