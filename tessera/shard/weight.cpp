#include "tessera/shard/weight.hpp"

#include <ATen/core/List.h>
#include <ATen/ops/addmm_ops.h>

#include "tessera/base/error.hpp"

namespace tessera::shard {

using tensor::Tensor;

Weight::Weight(Tensor value, Tensor gradient) : value_(std::move(value)), gradient_(std::move(gradient)) {
  TESSERA_CHECK(!value_.defined() || !gradient_.defined() || value_.sizes() == gradient_.sizes(),
                "a weight and its gradient differ in shape");
}

void Weight::set_gradient(Tensor gradient) {
  gradient_ = std::move(gradient);
  written_ = false;
}

// Accelerators multiply in 16 bits and add in 32 at once; CPUs have no kernel for that and round the product.
void Weight::add_product(const Tensor& dy_TO, const Tensor& x_TI) {
  const auto dtype = gradient_.scalar_type();
  const double kept = written_ ? 1 : 0;
  if (dy_TO.scalar_type() == dtype)
    gradient_.addmm_(dy_TO.t(), x_TI, kept, 1);
  else if (gradient_.is_cpu())
    return add(dy_TO.t().mm(x_TI));
  else
    at::_ops::addmm_dtype_out::call(gradient_, dy_TO.t(), x_TI, dtype, kept, 1, gradient_);
  written_ = true;
}

void Weight::add_grouped_product(const Tensor& dy_RO, const Tensor& x_RI,
                                 const std::vector<std::int64_t>& rows) {
  const Tensor matrices_EOI = gradient_.defined() ? gradient_.flatten(1, -2) : gradient_;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < rows.size(); first += rows[i++]) {
    Weight one(Tensor(), matrices_EOI.select(0, static_cast<std::int64_t>(i)));
    one.written_ = written_;
    if (rows[i] > 0) one.add_product(dy_RO.narrow(0, first, rows[i]), x_RI.narrow(0, first, rows[i]));
    one.end_gradient();
  }
  written_ = true;
}

// On a CPU, where the number is at hand, the sum is rounded once.
void Weight::add(const Tensor& term, const Tensor& scale) {
  if (!written_) {
    gradient_.copy_(term);
    if (scale.defined()) gradient_.mul_(scale);
  } else if (!scale.defined()) {
    gradient_.add_(term);
  } else if (scale.is_cpu()) {
    gradient_.add_(term, scale.item<double>());
  } else {
    gradient_.addcmul_(term, scale.to(gradient_.scalar_type()));
  }
  written_ = true;
}

void Weight::add_rows(const Tensor& rows_T, const Tensor& dy_TH) {
  if (!written_) gradient_.zero_();
  written_ = true;
  const Tensor dy = dy_TH.to(gradient_.scalar_type());
  if (gradient_.is_cpu())
    gradient_.index_add_(0, rows_T, dy);
  else  // CUDA sorts these; index_add_ would add in whatever order its threads come
    gradient_.index_put_(c10::List<std::optional<Tensor>>({rows_T}), dy, /*accumulate=*/true);
}

void Weight::add_column_sums(const Tensor& dy_TO) { add(dy_TO.sum({0}, false, gradient_.scalar_type())); }

void Weight::end_gradient() {
  if (!written_) gradient_.zero_();
  written_ = true;
}

void WeightWork::product(Weight& weight, Tensor dy_TO, Tensor x_TI) {
  take({Kind::product, &weight, std::move(dy_TO), std::move(x_TI)});
}

void WeightWork::grouped_product(Weight& weight, Tensor dy_RO, Tensor x_RI, std::vector<std::int64_t> rows) {
  take({Kind::grouped_product, &weight, std::move(dy_RO), std::move(x_RI), std::move(rows)});
}

void WeightWork::term(Weight& weight, Tensor term, Tensor scale) {
  take({Kind::term, &weight, std::move(term), std::move(scale)});
}

void WeightWork::rows(Weight& weight, Tensor rows_T, Tensor dy_TH) {
  take({Kind::rows, &weight, std::move(rows_T), std::move(dy_TH)});
}

void WeightWork::column_sums(Weight& bias, Tensor dy_TO) {
  take({Kind::column_sums, &bias, std::move(dy_TO), Tensor()});
}

void WeightWork::take(Term term) {
  if (at_once_)
    run(term);
  else
    terms_.push_back(std::move(term));
}

void WeightWork::run() {
  for (Term& term : terms_) {
    run(term);
    term.a = Tensor(), term.b = Tensor();
  }
  terms_.clear();
}

void WeightWork::run(const Term& term) {
  switch (term.kind) {
    case Kind::product:
      return term.weight->add_product(term.a, term.b);
    case Kind::grouped_product:
      return term.weight->add_grouped_product(term.a, term.b, term.rows);
    case Kind::term:
      return term.weight->add(term.a, term.b);
    case Kind::rows:
      return term.weight->add_rows(term.a, term.b);
    case Kind::column_sums:
      return term.weight->add_column_sums(term.a);
  }
}

}  // namespace tessera::shard
