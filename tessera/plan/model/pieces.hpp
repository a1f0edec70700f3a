// What families share about the pieces of units: sizes of a micro-batch, and the FLOPs and memory traffic of
// common pieces (unit_allocation_events.hpp: what they hold).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/program/ir/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

program::Dtype storage_dtype(spec::Precision precision);
program::Dtype compute_dtype(spec::Precision precision);

// Everything that the pieces of a model depend on, except the model itself.
struct StepShape {
  spec::Layout layout;
  std::int64_t loss_chunk_tokens = 512;
  bool has_documents = false;  // attention stays within documents
};

// How blocks of values and weights move (parallel/blocks/grid.hpp); of one rank each unless tp_kind says
// otherwise.
struct BlockSizes {
  bool in_blocks = false, is_cube = false, gathers = false;
  std::int64_t q = 1;                                                // rows, and columns, of the grid
  std::int16_t over_rows = -1, over_columns = -1, over_layers = -1;  // axis sets
  bool move() const { return q > 1; }
};

// Sizes of one micro-batch on one rank: n tokens that its products see, r of them on the residual stream, h
// hidden, q query width, k key (and value) width, f feed-forward, v vocabulary, c bytes per element computed
// with, a bytes per element of statistics and of the loss; q, k, f, v, heads and kv_heads are the rank's own.
struct Sizes {
  std::int64_t n, r, h, q, k, f, v, c, a, heads, kv_heads, sequence;
  std::int64_t tp, cp_ring,
      cp_heads;         // ranks; with values in blocks, which enter and leave no stream, tp is 1
  std::int64_t tp_rep;  // ranks of tp that compute the same keys and values
  std::int16_t over_tp, over_cp_ring, over_cp_heads, over_tp_exchanges, over_experts, over_expert_exchanges,
      over_same_samples, over_batch;  // axis sets, of those that have several ranks
  std::int64_t samples;               // whose tokens are n
  BlockSizes blocks;
  std::int64_t loss_chunk;  // tokens whose logits exist at a time
  bool has_documents;
  bool regathers;                           // what enters from the stream is gathered again in the backward
  bool is_narrow() const { return c < a; }  // computes in 16 bits
  bool drops;  // dropout reads and writes what is dropped once more; its mask is made again, never kept
  program::Dtype compute;
  Sizes(const spec::Model& model, const StepShape& shape);
};

// What a norm reads per channel: weights, biases.
struct NormSizes {
  std::int64_t vectors;
};
inline constexpr NormSizes kRmsNorm{1}, kLayerNorm{2};

// FLOPs, traffic and memory of a piece that runs after `piece`, in the same segment.
void add_costs(program::Piece& piece, const program::Piece& next);

double product_flops(std::int64_t n, std::int64_t in, std::int64_t out);

// Axis sets that the tables of a layout begin with: the data axes, and those over which pieces communicate.
struct InnerSets {
  std::int16_t data = 0, tp = -1, cp_ring = -1, cp_heads = -1;  // -1: of one rank
  std::int16_t tp_exchanges =
      -1;  // a channel of its own, alongside segments that use tp's; -1: nothing is opened
  std::int16_t tp_row = -1, tp_col = -1, tp_depth = -1;  // the grid of tp, where values are cut in blocks
  // Losses of which ranks of tp have parts are summed over a channel of its own, `numbers`, beside segments
  // that use tp's; it comes before tp's, so that sums find it first.
  std::int16_t numbers = -1, experts = -1, same_samples = -1, batch = -1;
  std::int16_t expert_exchanges = -1;  // a channel of its own, beside segments that use that of experts
  InnerSets() = default;
  InnerSets(const spec::Model& model, const spec::Layout& layout);
};

// The rank's tokens from the residual stream, whole on each rank of tp; and what each has summed of them,
// back on it.
void enter_stream(program::Piece& piece, const Sizes& s);
// The same for a product, whose input the backward needs again.
void enter_product(program::Piece& piece, const Sizes& s);
void leave_stream(program::Piece& piece, const Sizes& s);

// Collectives of attention over context parallelism.
void exchange_context(program::Piece& piece, const Sizes& s);

// tokens -> rows of one or two tables.
program::Piece lookup(const Sizes& s, std::int64_t tables);
// x -> norm(x) W: the normalised x is written and read again. `biases` is how many rows of `out` are added to
// the product.
program::Piece norm_and_product(const char* name, const Sizes& s, const NormSizes& norm, std::int64_t out,
                                std::int64_t biases);
// residual + x W.
program::Piece product_and_residual(const char* name, const Sizes& s, std::int64_t in, std::int64_t biases);
program::Piece norm(const Sizes& s, const NormSizes& norm);
// The vocabulary loss, as Note [Loss gradient in the forward] has it.
program::Piece loss(const Sizes& s);

// A piece that is run as one. Its parameters are only read by the forward, unless its backward has products.
program::Piece named(program::Piece piece, std::vector<std::string> reads, std::vector<std::string> writes,
                     std::vector<std::string> parameters = {});

// A step of a block, and those that take a value from the stream and bring it back.
program::Step step(std::string name, std::vector<std::string> reads, std::vector<std::string> writes,
                   std::vector<std::string> parameters = {});
// One whose backward needs neither what it reads nor what it writes: sums, dropout, biases.
program::Step linear_step(std::string name, std::vector<std::string> reads, std::vector<std::string> writes,
                          std::vector<std::string> parameters = {});
program::Step enter(const std::string& value);
program::Step leave(const std::string& value);
// A piece that runs these steps: it reads what they read and do not write before, and writes what the last
// one does.
program::Piece made_of(program::Piece piece, std::vector<program::Step> steps);
// The values that steps read and do not write before, in the order in which they first do.
std::vector<std::string> values_read(std::span<const program::Step> steps);

program::Init normal(double std);
// What adds to the residual stream starts smaller, so that the stream's variance does not grow with depth.
program::Init residual_normal(const spec::Model& model);

}  // namespace tessera::plan
