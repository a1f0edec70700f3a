// What LibTorch's kernels hold while a piece runs: the storages that layers make, keep and free, in the order
// in which they do, written down from what an allocator counted, and held to it by train/peak_slow_test.cpp.
#pragma once

#include <string>
#include <vector>

#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

inline constexpr std::int64_t kIndexBytes = 8;  // of a number of a row or of an expert

// A list that is written from the first moment to the last.
class AllocationEvents {
 public:
  AllocationEvents& make(const std::string& storage, std::int64_t bytes);
  AllocationEvents& drop(const std::string& storage);
  // Made and dropped.
  AllocationEvents& pass(std::int64_t bytes);
  AllocationEvents& tape(const std::string& storage);
  AllocationEvents& untape(const std::string& storage);
  AllocationEvents& sum(const std::string& gradient, const std::string& other, std::int64_t bytes);
  AllocationEvents& defer(const std::string& gradient, std::int64_t bytes, const std::string& input,
                          std::int64_t input_bytes, std::int64_t scratch_bytes);
  const std::vector<program::AllocationEvent>& list() const { return list_; }

 private:
  std::vector<program::AllocationEvent> list_;
};

// One product of x [n, in] with a weight [out, in]: out, its gradient d.out and x's d.x are storages of these
// names.
struct ProductNames {
  std::string x, out, gradient;  // gradient: what d.out is called, another's where it is shared
};
struct ProductSizes {
  std::int64_t in, out;
  bool has_bias;
};
// `tapes`: the tape holds the input.
void forward_product(AllocationEvents& events, const Sizes& s, const ProductNames& names,
                     const ProductSizes& sizes, bool tapes = true);
void backward_product(AllocationEvents& events, const Sizes& s, const ProductNames& names,
                      const ProductSizes& sizes);

// normed = norm(x). The gradient d.x adds up with `residual`, if there is one.
void forward_norm(AllocationEvents& events, const Sizes& s, bool has_mean, const std::string& x,
                  const std::string& normed);
void backward_norm(AllocationEvents& events, const Sizes& s, bool has_mean, const std::string& x,
                   const std::string& normed, const std::string& residual);

// What the ranks of tp hold each a part of, or sums of parts: see enter_stream and leave_stream in
// pieces.hpp. They return the name of what comes out.
std::string forward_enter(AllocationEvents& events, const Sizes& s, const std::string& x);
void backward_enter(AllocationEvents& events, const Sizes& s, const std::string& x);
std::string forward_leave(AllocationEvents& events, const Sizes& s, const std::string& sums);
// The gradient's name, and what becomes of it once it has been used.
std::string backward_leave(AllocationEvents& events, const Sizes& s, const std::string& gradient);
void drop_left(AllocationEvents& events, const Sizes& s, const std::string& gradient);

// out = x with dropout; nothing happens without.
void forward_dropout(AllocationEvents& events, const Sizes& s, const std::string& x, const std::string& out);

// The attention kernel: of what it reads and of what it makes, with the gradients d.q, d.k and d.v.
struct HeadNames {
  std::vector<std::string> in;
  std::string out;
};
void forward_heads(AllocationEvents& events, const Sizes& s, const HeadNames& names);
void backward_heads(AllocationEvents& events, const Sizes& s, const HeadNames& names);

// What comes before it too, of queries, keys and values that lie side by side.
struct HeadShape {
  bool has_rotary, has_norm;
};
void forward_attention(AllocationEvents& events, const Sizes& s, const HeadShape& shape);
void backward_attention(AllocationEvents& events, const Sizes& s, const HeadShape& shape);

void forward_loss(AllocationEvents& events, const Sizes& s);
void backward_loss(AllocationEvents& events, const Sizes& s);

}  // namespace tessera::plan
