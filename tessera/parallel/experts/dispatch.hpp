// Tokens on their way to the ranks of their experts, and back.
//
// Shapes: T tokens of this rank, K experts of a token, R rows that reach this rank's experts, H hidden.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/collective/placement.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

// The ranks that share experts. Of equally many in order each `slices` neighbours hold the same experts, a
// slice of their matrices each.
struct ExpertRanks {
  collective::Axis axis{"ep", {}};
  std::int64_t slices = 1;
};

// The rows of one forward. Each token is sent once for each of its experts. All ranks make one at a time.
class Dispatch {
 public:
  // `experts_TK` below 0 are sent nowhere. `order_T` numbers the tokens of all ranks, rising on each: within
  // an expert its rows lie in this order, so that sums over them do not depend on who held which.
  Dispatch(const tensor::Tensor& experts_TK, std::int64_t num_experts, const tensor::Tensor& order_T,
           const ExpertRanks& ranks);

  // Rows of each of this rank's experts.
  const std::vector<std::int64_t>& rows() const { return rows_; }
  // x_TH -> rows_RH, expert by expert.
  tensor::Tensor to_experts(const tensor::Tensor& x_TH) const;
  // What the experts made of the rows, of which each slice has a part of the sum: sum over K of weight * row.
  tensor::Tensor combine(tensor::Tensor rows_RH, const tensor::Tensor& weights_TK) const;

  // Both in parts, for who lets the rows travel otherwise: to_experts is arrived(exchange(leaving(x))), and
  // combine is summed(exchange(returning(rows)), weights).
  tensor::Tensor leaving(const tensor::Tensor& x_TH) const;
  tensor::Tensor arrived(const tensor::Tensor& rows_RH) const;
  tensor::Tensor returning(const tensor::Tensor& rows_RH) const;
  tensor::Tensor summed(const tensor::Tensor& rows, const tensor::Tensor& weights_TK) const;
  // Such an exchange, over other channels of the same ranks; no derivative is kept.
  enum class Way { to_experts, back };
  tensor::Tensor exchanged(const tensor::Tensor& rows, Way way, const collective::Group& group) const;

 private:
  tensor::Tensor exchanged(const tensor::Tensor& rows, const std::vector<std::int64_t>& arriving,
                           const std::vector<std::int64_t>& leaving) const;
  tensor::Tensor to_slices(const tensor::Tensor& rows_SH) const;
  tensor::Tensor sum_of_slices(const tensor::Tensor& rows) const;

  collective::Axis axis_;
  std::int64_t slices_;
  // S rows are sent, by expert and order.
  tensor::Tensor choices_S_;  // of T*K, the one that a row is sent for
  tensor::Tensor rows_TK_;    // the row of each choice; 0 of one that is sent nowhere
  tensor::Tensor kept_TK_;    // whether it is sent; undefined: all are
  std::vector<std::int64_t> sent_to_, received_from_;  // rows, by rank
  tensor::Tensor sorted_R_, unsorted_R_;               // of what arrives: the way to its order and back
  std::vector<std::int64_t> rows_;
};

}  // namespace tessera::parallel
