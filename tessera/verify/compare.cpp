#include "tessera/verify/compare.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "tessera/base/error.hpp"

namespace tessera::train {

namespace {

using tensor::Tensor;

double largest(const Tensor& t) { return t.numel() ? t.abs().max().item<double>() : 0.0; }

// The multiple of `expected` that is nearest to `found`, if it is one up to a thousandth.
std::optional<double> ratio_of(const Tensor& found, const Tensor& expected) {
  const double square = optim::squared_norm(expected).item<double>();
  if (square == 0) return std::nullopt;
  const double ratio = found.mul(expected).sum().item<double>() / square;
  const double rest = std::sqrt(optim::squared_norm(found.sub(expected.mul(ratio))).item<double>() / square);
  return rest < 1e-3 * std::max(std::abs(ratio), 1e-3) ? std::optional(ratio) : std::nullopt;
}

Comparison compare_numbers(const std::string& what, double found, double expected) {
  const bool is_same = found == expected || (std::isnan(found) && std::isnan(expected));
  const double error = is_same ? 0.0 : std::abs(found - expected) / std::abs(expected);
  return {.what = what,
          .kind = "number",
          .error = error,
          .is_finite = std::isfinite(expected),
          .found = found,
          .expected = expected,
          .ratio = found / expected};
}

// Where both are the same, not finite ones too, zero.
Tensor difference_of(const Tensor& a, const Tensor& e) {
  const Tensor is_same = a.eq(e).logical_or_(a.isnan().logical_and_(e.isnan()));
  return a.sub(e).abs_().masked_fill_(is_same, 0);
}

// Buckets differ from layout to layout, parameters don't.
void compare_tensors(std::vector<Comparison>& out, const char* kind,
                     const std::map<std::string, Tensor>& found,
                     const std::map<std::string, Tensor>& expected, std::span<const std::string> order) {
  const double floor = rms(expected);
  for (const auto& name : order) {
    TESSERA_CHECK(found.contains(name), "no rank holds ", name);
    const Tensor a = found.at(name), e = expected.at(name), difference = difference_of(a, e);
    const double most = largest(difference), scale = largest(e.nan_to_num(0, 0, 0));
    Comparison c{.what = name,
                 .kind = kind,
                 .error = most == 0 ? 0 : most / std::max(scale, floor),
                 .is_finite = e.isfinite().all().item<bool>()};
    if (c.error != 0) {
      const std::int64_t where = difference.argmax().item<std::int64_t>();
      c.found = a.select(0, where).item<double>();
      c.expected = e.select(0, where).item<double>();
      c.ratio = ratio_of(a, e);
    }
    out.push_back(std::move(c));
  }
}

// Whether rounding alone may have moved the parameter so far: all its gradients are rounding, and AdamW's
// updates of t steps are at most sqrt(t) learning rates each, here and there.
bool is_moved_by_rounding(const std::string& name, const Outcome& found, const Outcome& expected) {
  const auto known = expected.largest_gradients.find(name);
  if (known == expected.largest_gradients.end() || !(known->second < kZeroInTheory)) return false;
  const double most = 2 * std::sqrt(std::ssize(expected.losses)) * expected.learning_rates;
  return largest(difference_of(found.parameters.at(name), expected.parameters.at(name))) <= most;
}

// Gradients that are zero in theory here and there, and parameters that have had no others.
void excuse_zeros(std::span<Comparison> comparisons, const Outcome& found, const Outcome& expected) {
  const double least = kZeroInTheory * rms(expected.gradients);
  const auto is_small = [&](const Tensor& gradient) { return largest(gradient) < least; };  // NaN is not
  std::set<std::string> zeros;
  for (auto& c : comparisons) {
    if (c.kind == "gradient") {
      c.zero_in_theory = is_small(found.gradients.at(c.what)) && is_small(expected.gradients.at(c.what));
      if (c.zero_in_theory) zeros.insert(c.what);
    } else if (c.kind == "parameter" && zeros.contains(c.what)) {
      c.zero_in_theory = is_moved_by_rounding(c.what, found, expected);
    }
  }
}

bool is_wrong(const Comparison& c, double tolerance) { return !c.zero_in_theory && !(c.error <= tolerance); }

const program::Bucket* bucket_of(const std::string& parameter, const program::Tables& tables) {
  for (const auto& bucket : tables.buckets)
    for (const auto& own : bucket.parameters)
      if (own.name == parameter) return &bucket;
  return nullptr;
}

}  // namespace

std::vector<Comparison> compare(const Outcome& found, const Outcome& expected,
                                std::span<const std::string> order) {
  std::vector<Comparison> out;
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    out.push_back(compare_numbers(cat("loss of step ", i + 1), found.losses[i], expected.losses[i]));
    out.push_back(compare_numbers(cat("norm of step ", i + 1), found.norms[i], expected.norms[i]));
  }
  compare_tensors(out, "gradient", found.gradients, expected.gradients, order);
  compare_tensors(out, "parameter", found.parameters, expected.parameters, order);
  out.push_back(compare_numbers("loss of other samples", found.evaluation, expected.evaluation));
  for (std::size_t i = 0; i < expected.other_losses.size(); ++i)
    out.push_back(compare_numbers(expected.other_losses[i].name, found.other_losses.at(i).mean,
                                  expected.other_losses[i].mean));
  excuse_zeros(out, found, expected);
  return out;
}

double worst_of(std::span<const Comparison> comparisons) {
  double worst = 0;
  for (const auto& c : comparisons)
    if (!c.zero_in_theory) worst = std::isnan(c.error) ? INFINITY : std::max(worst, c.error);
  return worst;
}

const Comparison* first_wrong(std::span<const Comparison> comparisons, double tolerance) {
  const auto wrong = [&](const Comparison& c) { return is_wrong(c, tolerance); };
  if (!comparisons.empty() && wrong(comparisons.front())) return &comparisons.front();
  for (std::size_t i = comparisons.size(); i-- > 0;)
    if (comparisons[i].kind == "gradient" && wrong(comparisons[i])) return &comparisons[i];
  const auto other = std::ranges::find_if(comparisons, wrong);
  return other == comparisons.end() ? nullptr : &*other;
}

std::vector<std::string> computed_order(const program::Tables& tables) {
  std::vector<std::string> out;
  for (const auto& unit : tables.units)
    for (const auto& piece : unit.pieces)
      for (const auto& name : piece.parameters)
        if (std::ranges::find(out, name) == out.end()) out.push_back(name);
  return out;
}

std::string placement_text(const std::string& parameter, const program::Tables& tables) {
  const auto* bucket = bucket_of(parameter, tables);
  if (!bucket) return "";
  const auto own = std::ranges::find(bucket->parameters, parameter, &program::Parameter::name);
  std::vector<std::string> words;
  for (const auto& [axis, placement] : bucket->placement) {
    const auto& on = tables.axes[static_cast<std::size_t>(axis)];
    if (on.size == 1) continue;
    const std::string how = placement == program::Placement::replicated  ? "R"
                            : placement == program::Placement::invariant ? "I"
                                                                         : own->cut_text();
    words.push_back(cat(on.name, " ", on.size, " ", how));
  }
  if (tables.is_served(*bucket))
    words.push_back(cat("its bucket on ", tables.num_slices(*bucket), " servers"));
  else if (tables.num_slices(*bucket) > 1)
    words.push_back(cat("its bucket in ", tables.num_slices(*bucket), " slices"));
  return words.empty() ? "whole" : join(words, ", ");
}

std::string cause_of(std::optional<double> ratio, const program::Tables& tables) {
  if (!ratio) return "no multiple of it: parts of other ranks, or of other tokens";
  const auto is_near = [&](double x) { return std::abs(*ratio - x) < 1e-3 * std::max(x, 1e-3); };
  if (is_near(0)) return "nothing of it arrived";
  if (is_near(1)) return "almost all of it: rounding, or what is small is missing";
  std::vector<std::string> some, many;
  for (const auto& axis : tables.axes) {
    if (axis.size == 1) continue;
    if (is_near(1.0 / static_cast<double>(axis.size))) some.push_back(axis.name);
    if (is_near(static_cast<double>(axis.size))) many.push_back(axis.name);
  }
  if (!some.empty())
    return cat("a sum over ", join(some, " or "), " was left out, or a mean taken where a sum belongs");
  if (!many.empty()) return cat("equal parts were summed over ", join(many, " or "), ", or summed once more");
  return "a multiple that no single axis explains";
}

}  // namespace tessera::train
