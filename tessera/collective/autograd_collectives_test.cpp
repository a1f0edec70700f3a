#include "tessera/collective/autograd_collectives.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/collective/testing/all_ranks.hpp"
#include "tessera/collective/testing/damage.hpp"
#include "tessera/collective/transports/threads/threads.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;
using Kind = Placement::Kind;
using Shape = std::vector<std::int64_t>;

constexpr std::uint64_t kSeed = 7;
const Rows kUneven{3, 0, 1, 2};  // the first n of them on n ranks

Rows uneven(int size) { return {kUneven.begin(), kUneven.begin() + size}; }
std::int64_t total(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }
std::int64_t of_rank(const Rows& rows, int rank) { return rows[static_cast<std::size_t>(rank)]; }

Tensor random_tensor(const Shape& shape, const std::string& name) {
  Tensor t = tensor::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data_ptr<double>()[i] = random_normal(kSeed, stream_of(name), static_cast<std::uint64_t>(i));
  return t;
}

double dot(const Tensor& a, const Tensor& b) { return a.mul(b).sum().item<double>(); }

bool is_equal_on_all_ranks(const Placement& p) {
  return p.kind == Kind::replicated || p.kind == Kind::invariant;
}

// Rows a -> b of an uneven exchange.
std::int64_t sent(int a, int b) { return (2 * a + b) % 3; }
Rows sent_by(int rank, int size) {
  Rows rows;
  for (int peer = 0; peer < size; ++peer) rows.push_back(sent(rank, peer));
  return rows;
}
Rows sent_to(int rank, int size) {
  Rows rows;
  for (int peer = 0; peer < size; ++peer) rows.push_back(sent(peer, rank));
  return rows;
}

struct Case {
  const char* name;
  Placement before, after;
  std::function<Shape(int rank, int size)> shape;  // of the rank's input
  std::function<Placed(const Placed&, const Axis&)> apply;
  bool keeps_the_whole = true;  // the value put together from all ranks stays the same
};

const std::vector<Case>& cases() {
  const auto fixed = [](Shape shape) { return [=](int, int) { return shape; }; };
  const auto whole = [](int, int size) { return Shape{2 * size, 3 * size}; };
  const auto uneven_part = [](int rank, int size) { return Shape{2, of_rank(uneven(size), rank)}; };
  const auto uneven_whole = [](int, int size) { return Shape{2, total(uneven(size))}; };
  const auto counts = [](const Axis& axis) { return uneven(axis.group.size()); };
  static const std::vector<Case> all{
      {"gather_replicated on dim 0", sharded(0), kReplicated, fixed({2, 3}),
       [](auto& x, auto& a) { return gather_replicated(x, a); }},
      {"gather_replicated on dim 1", sharded(1), kReplicated, fixed({2, 3}),
       [](auto& x, auto& a) { return gather_replicated(x, a); }},
      {"gather_replicated by rows", sharded(1), kReplicated, uneven_part,
       [=](auto& x, auto& a) { return gather_replicated(x, a, counts(a)); }},
      {"gather_invariant on dim 1", sharded(1), kInvariant, fixed({2, 3}),
       [](auto& x, auto& a) { return gather_invariant(x, a); }},
      {"gather_invariant by rows", sharded(1), kInvariant, uneven_part,
       [=](auto& x, auto& a) { return gather_invariant(x, a, counts(a)); }},
      {"reduce_scatter on dim 0", kPartial, sharded(0), whole,
       [](auto& x, auto& a) { return reduce_scatter(x, a, 0); }},
      {"reduce_scatter on dim 1", kPartial, sharded(1), whole,
       [](auto& x, auto& a) { return reduce_scatter(x, a, 1); }},
      {"reduce_scatter by rows", kPartial, sharded(1), uneven_whole,
       [=](auto& x, auto& a) { return reduce_scatter(x, a, 1, counts(a)); }},
      {"all_reduce_replicated", kPartial, kReplicated, fixed({2, 3}),
       [](auto& x, auto& a) { return all_reduce_replicated(x, a); }},
      {"all_reduce_invariant", kPartial, kInvariant, fixed({2, 3}),
       [](auto& x, auto& a) { return all_reduce_invariant(x, a); }},
      {"replicate", kInvariant, kReplicated, fixed({2, 3}), [](auto& x, auto& a) { return replicate(x, a); }},
      {"slice of I", kInvariant, sharded(1), whole, [](auto& x, auto& a) { return slice(x, a, 1); }},
      {"slice of R", kReplicated, sharded(0), whole, [](auto& x, auto& a) { return slice(x, a, 0); }},
      {"slice of I by rows", kInvariant, sharded(1), uneven_whole,
       [=](auto& x, auto& a) { return slice(x, a, 1, counts(a)); }},
      {"slice of R by rows", kReplicated, sharded(1), uneven_whole,
       [=](auto& x, auto& a) { return slice(x, a, 1, counts(a)); }},
      {"to_partial of R", kReplicated, kPartial, fixed({2, 3}),
       [](auto& x, auto& a) { return to_partial(x, a); }},
      {"to_partial of I", kInvariant, kPartial, fixed({2, 3}),
       [](auto& x, auto& a) { return to_partial(x, a); }},
      {"to_partial of S", sharded(1), kPartial, fixed({2, 3}),
       [](auto& x, auto& a) { return to_partial(x, a); }},
      {"to_partial of S by rows", sharded(1), kPartial, uneven_part,
       [=](auto& x, auto& a) { return to_partial(x, a, counts(a)); }},
      {"reshard 0 to 1", sharded(0), sharded(1),
       [](int, int size) {
         return Shape{2, 3 * size, 2};
       },
       [](auto& x, auto& a) { return reshard(x, a, 1); }},
      {"reshard 2 to 0", sharded(2), sharded(0),
       [](int, int size) {
         return Shape{2 * size, 2, 3};
       },
       [](auto& x, auto& a) { return reshard(x, a, 0); }},
      {"reshard 1 to 2", sharded(1), sharded(2),
       [](int, int size) {
         return Shape{2, 2, size};
       },
       [](auto& x, auto& a) { return reshard(x, a, 2); }},
      {"exchange_rows", kVarying, kVarying,
       [](int rank, int size) {
         return Shape{total(sent_by(rank, size)), 2};
       },
       [](auto& x, auto& a) {
         const int rank = a.group.rank(), size = a.group.size();
         return exchange_rows(x, a, sent_to(rank, size), sent_by(rank, size));
       },
       false},
      {"shift by 1", kVarying, kVarying, fixed({2, 3}), [](auto& x, auto& a) { return shift(x, a, 1); },
       false},
      {"shift by -2", sharded(0), sharded(0), fixed({2, 3}), [](auto& x, auto& a) { return shift(x, a, -2); },
       false},
      {"broadcast from the first", kVarying, kReplicated, fixed({2, 3}),
       [](auto& x, auto& a) { return broadcast(x, a, 0); }, false},
      {"broadcast from the last", kVarying, kReplicated, fixed({2, 3}),
       [](auto& x, auto& a) { return broadcast(x, a, a.group.size() - 1); }, false},
  };
  return all;
}

void on_axis(int size, const std::function<void(const Axis&)>& body) {
  run_ranks(size, [&](const Communicator& me) { body(Axis{"tp", make_groups(me, {all_ranks(size)})[0]}); });
}

std::string own_name(const char* what, const Placement& placement, int rank) {
  return is_equal_on_all_ranks(placement) ? what : cat(what, rank);
}

// The function of all ranks' inputs that is differentiated: each y counts as often as its placement says.
double global_loss(const Placed& y, const Tensor& weight, const Group& group) {
  const bool counts_once = y.on("tp") == kInvariant;
  Tensor sum = tensor::zeros({1}, at::kDouble);
  if (!counts_once || group.rank() == 0) sum.add_(dot(weight, y.tensor));
  group.all_reduce_sum(sum);
  return sum.item<double>();
}

// One tensor from all ranks' parts.
Tensor whole(const std::vector<Tensor>& parts, const Placement& placement) {
  if (is_equal_on_all_ranks(placement)) return parts[0];
  if (placement.kind == Kind::varying) return tensor::concatenate(parts, placement.dim);
  Tensor sum = parts[0].clone();
  for (std::size_t i = 1; i < parts.size(); ++i) sum.add_(parts[i]);
  return sum;
}

void expect_near(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  if (a.numel() == 0) return;
  EXPECT_LT(a.sub(b).abs().max().item<double>(), 1e-10) << what;
}

class TypedCollective : public testing::TestWithParam<std::tuple<std::size_t, int>> {};
INSTANTIATE_TEST_SUITE_P(Every, TypedCollective,
                         testing::Combine(testing::Range(std::size_t{0}, cases().size()),
                                          testing::Values(1, 2, 3, 4)));

TEST_P(TypedCollective, HasTheDerivativeThatFiniteDifferencesShow) {
  const auto [index, size] = GetParam();
  const Case& test = cases()[index];
  std::vector<Tensor> inputs(static_cast<std::size_t>(size)), outputs(inputs), gradients(inputs);
  on_axis(size, [&, size = size](const Axis& axis) {
    const int rank = axis.group.rank();
    const auto self = static_cast<std::size_t>(rank);
    const auto placed = [&](Tensor t) { return Placed{std::move(t), "x", {{"tp", test.before}}}; };
    const Tensor input = random_tensor(test.shape(rank, size), own_name("input", test.before, rank));

    const Tensor leaf = input.clone().set_requires_grad(true);
    const Placed y = test.apply(placed(leaf), axis);
    ASSERT_EQ(y.on("tp"), test.after) << test.name;
    // What weighs y is its gradient: equal on all ranks for I and P, each rank's own for R and V.
    const bool has_equal_weights = test.after == kInvariant || test.after == kPartial;
    const Tensor weight =
        random_tensor(y.tensor.sizes().vec(), has_equal_weights ? "weight" : cat("weight", rank));
    y.tensor.backward(weight);
    inputs[self] = input;
    outputs[self] = y.tensor.detach();
    gradients[self] = leaf.grad().clone();
    Tensor summed = gradients[self].clone();
    if (test.before == kReplicated) axis.group.all_reduce_sum(summed);

    // Only linear maps: a large step is exact.
    const double step = 0.5;
    const auto loss_at = [&](int changed_rank, std::int64_t element, double change) {
      Tensor moved = input.clone();
      if (changed_rank < 0 || changed_rank == rank) moved.view({-1}).narrow(0, element, 1).add_(change);
      return global_loss(test.apply(placed(moved), axis), weight, axis.group);
    };
    const bool moves_together = is_equal_on_all_ranks(test.before);
    for (int changed = moves_together ? -1 : 0; changed < (moves_together ? 0 : size); ++changed) {
      const Shape shape = test.shape(std::max(changed, 0), size);
      const auto num_elements =
          std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
      for (std::int64_t i = 0; i < num_elements; ++i) {
        const double slope = (loss_at(changed, i, step) - loss_at(changed, i, -step)) / (2 * step);
        if (changed < 0 || changed == rank) {
          EXPECT_NEAR(summed.reshape({-1})[i].item<double>(), slope, 1e-10)
              << test.name << ", rank " << rank << " of " << size << ", element " << i;
        }
      }
    }
  });
  if (test.keeps_the_whole) expect_near(whole(outputs, test.after), whole(inputs, test.before), test.name);
  for (int rank = 1; rank < size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (is_equal_on_all_ranks(test.after)) {
      EXPECT_TRUE(tensor::bit_equal(outputs[r], outputs[0])) << test.name;
    }
    // The gradient of I is I, that of P is R: equal on all ranks.
    if (test.before == kInvariant || test.before == kPartial) {
      EXPECT_TRUE(tensor::bit_equal(gradients[r].contiguous(), gradients[0].contiguous())) << test.name;
    }
  }
}

TEST(Typed, ShiftBroadcastExchangeAndMaximumGiveTheRightRanksValues) {
  for (const int size : {1, 2, 3, 4}) {
    on_axis(size, [size](const Axis& axis) {
      const int rank = axis.group.rank();
      const auto input_of = [](int r) { return random_tensor({2, 3}, cat("input", r)); };
      const Placed x{input_of(rank), "x", {{"tp", kVarying}}};
      EXPECT_TRUE(tensor::bit_equal(shift(x, axis, 1).tensor, input_of((rank + size - 1) % size)));
      EXPECT_TRUE(tensor::bit_equal(shift(x, axis, -1 - size).tensor, input_of((rank + 1) % size)));
      EXPECT_TRUE(tensor::bit_equal(broadcast(x, axis, size - 1).tensor, input_of(size - 1)));

      Tensor largest = input_of(0);
      for (int r = 1; r < size; ++r) largest = largest.maximum(input_of(r));
      const Placed found = maximum({x.tensor.clone().set_requires_grad(true), "x", x.placements}, axis);
      EXPECT_TRUE(tensor::bit_equal(found.tensor, largest));
      EXPECT_EQ(found.on("tp"), kInvariant);
      EXPECT_FALSE(found.tensor.requires_grad());

      const auto rows_of = [size](int r) {
        return random_tensor({total(sent_by(r, size)), 2}, cat("rows", r));
      };
      const Placed y = exchange_rows({rows_of(rank), "y", {{"tp", sharded(0)}}}, axis, sent_to(rank, size),
                                     sent_by(rank, size));
      std::vector<Tensor> parts;
      for (int peer = 0; peer < size; ++peer) {
        const Rows before = sent_by(peer, rank);
        parts.push_back(rows_of(peer).narrow(0, total(before), sent(peer, rank)));
      }
      EXPECT_TRUE(tensor::bit_equal(y.tensor, tensor::concatenate(parts, 0)));
    });
  }
}

// relu(x a) b, with a cut by columns and b by rows, against the same on one rank.
TEST(Typed, TwoSplitProductsEqualOneRankWithAndWithoutSequenceParallelism) {
  const std::int64_t num_tokens = 12, width = 6, hidden = 24;
  const auto leaf = [](const Tensor& t) { return t.clone().set_requires_grad(true); };
  const Tensor x = random_tensor({num_tokens, width}, "x"), a = random_tensor({width, hidden}, "a"),
               b = random_tensor({hidden, width}, "b"), weight = random_tensor({num_tokens, width}, "weight");
  const Tensor x1 = leaf(x), a1 = leaf(a), b1 = leaf(b);
  const Tensor y1 = x1.matmul(a1).relu().matmul(b1);
  y1.backward(weight);
  for (const int size : {1, 2, 3, 4})
    for (const bool is_sequence_parallel : {false, true})
      on_axis(size, [&](const Axis& axis) {
        const int rank = axis.group.rank();
        const auto part = [&](const Tensor& t, std::int64_t dim) {
          const std::int64_t count = t.size(dim) / size;
          return t.narrow(dim, rank * count, count);
        };
        const Tensor ar = leaf(part(a, 1)), br = leaf(part(b, 0));
        const Tensor xr = leaf(is_sequence_parallel ? part(x, 0) : x);
        const Placed input{xr, "x", {{"tp", is_sequence_parallel ? sharded(0) : kInvariant}}};
        const Placed seen = is_sequence_parallel ? gather_replicated(input, axis) : replicate(input, axis);
        const Placed sums{seen.tensor.matmul(ar).relu().matmul(br), "y", {{"tp", kPartial}}};
        const Placed y =
            is_sequence_parallel ? reduce_scatter(sums, axis, 0) : all_reduce_invariant(sums, axis);
        y.tensor.backward(is_sequence_parallel ? part(weight, 0) : weight);
        expect_near(y.tensor, is_sequence_parallel ? part(y1, 0) : y1, "y");
        expect_near(xr.grad(), is_sequence_parallel ? part(x1.grad(), 0) : x1.grad(), "gradient of x");
        expect_near(ar.grad(), part(a1.grad(), 1), "gradient of a");
        expect_near(br.grad(), part(b1.grad(), 0), "gradient of b");
      });
}

TEST(Typed, ASumThatIsLeftOutOfTheBackwardShowsInTheGradient) {
  on_axis(3, [](const Axis& axis) {
    const Axis wrong{"tp",
                     damaged(axis.group, {Harm::skipped, CallKind::all_reduce, CallDirection::backward})};
    const Tensor x = tensor::zeros({2}, at::kDouble).set_requires_grad(true);
    replicate({x, "x", {{"tp", kInvariant}}}, wrong).tensor.sum().backward();
    EXPECT_EQ(x.grad()[0].item<double>(), 1);  // 3 without the damage
  });
}

TEST(Typed, CallsOfTheBackwardAreCountedApart) {
  on_axis(2, [](const Axis& axis) {
    axis.group.tally().reset(true);
    const Tensor x = tensor::zeros({2}, at::kDouble).set_requires_grad(true);
    all_reduce_replicated({x, "x", {{"tp", kPartial}}}, axis).tensor.sum().backward();
    EXPECT_EQ(axis.group.tally().list(),
              (std::vector<Call>{{CallKind::all_reduce, CallDirection::forward, 16},
                                 {CallKind::all_reduce, CallDirection::backward, 16}}));
  });
}

std::string mistake(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "(no mistake)";
}

TEST(Typed, AWrongPlacementIsToldWithTensorAxisFoundAndNeeded) {
  const Axis tp{"tp", Group()};
  const auto placed = [](Placement p) {
    return Placed{tensor::zeros({4, 4}, at::kDouble), "q", {{"tp", p}}};
  };
  EXPECT_EQ(mistake([&] { all_reduce_replicated(placed(kReplicated), tp); }),
            "all_reduce_replicated: tensor q is R on axis tp, but must be P");
  EXPECT_EQ(mistake([&] { gather_replicated(placed(kVarying), tp); }),
            "gather_replicated: tensor q is V on axis tp, but must be S(dim)");
  EXPECT_EQ(mistake([&] { slice(placed(sharded(1)), tp, 0); }),
            "slice: tensor q is S(1) on axis tp, but must be I or R");
  EXPECT_EQ(mistake([&] {
              slice(placed(kReplicated), {"dp", Group()}, 0);
            }),
            "tensor q: R on tp has no placement on axis dp");
  const std::vector<std::function<void()>> others{[&] { gather_invariant(placed(kPartial), tp); },
                                                  [&] { reduce_scatter(placed(sharded(0)), tp, 0); },
                                                  [&] { all_reduce_invariant(placed(kInvariant), tp); },
                                                  [&] { replicate(placed(kReplicated), tp); },
                                                  [&] { to_partial(placed(kVarying), tp); },
                                                  [&] { to_partial(placed(kPartial), tp); },
                                                  [&] { reshard(placed(kReplicated), tp, 1); },
                                                  [&] { exchange_rows(placed(sharded(1)), tp, {4}, {4}); },
                                                  [&] { shift(placed(kPartial), tp, 1); },
                                                  [&] { broadcast(placed(kReplicated), tp, 0); },
                                                  [&] { maximum(placed(kPartial), tp); }};
  for (std::size_t i = 0; i < others.size(); ++i)
    EXPECT_NE(mistake(others[i]).find("tensor q is "), std::string::npos) << i << ": " << mistake(others[i]);
}

TEST(Typed, CutsThatDontFitAreMistakes) {
  on_axis(3, [](const Axis& axis) {
    const Placed x{tensor::zeros({4, 3}, at::kDouble), "x", {{"tp", kReplicated}}};
    EXPECT_NE(mistake([&] { slice(x, axis, 0); }).find("has size 4, which axis tp of 3 ranks doesn't divide"),
              std::string::npos);
    EXPECT_NE(mistake([&] { slice(x, axis, 0, {1, 2}); }), "(no mistake)");
    EXPECT_NE(mistake([&] { slice(x, axis, 0, {1, 2, 2}); }), "(no mistake)");
    EXPECT_NE(mistake([&] { slice(x, axis, 2); }), "(no mistake)");
    const Placed part{x.tensor, "x", {{"tp", sharded(0)}}};
    EXPECT_NE(mistake([&] { gather_replicated(part, axis, {3, 3, 3}); }), "(no mistake)");
  });
}

TEST(Typed, TheOrderOfAxesOnADimIsKeptAndChecked) {
  const Tensor all = random_tensor({8}, "all");
  run_ranks(4, [&](const Communicator& me) {
    const int dp_rank = me.rank() / 2, tp_rank = me.rank() % 2;
    const auto groups = make_groups(me, {{2 * dp_rank, 2 * dp_rank + 1}, {tp_rank, tp_rank + 2}});
    const Axis tp{"tp", groups[0]}, dp{"dp", groups[1]};
    const Placed x{all, "x", {{"tp", kReplicated}, {"dp", kReplicated}}};
    const Placed dp_over_tp = slice(slice(x, dp, 0), tp, 0), tp_over_dp = slice(slice(x, tp, 0), dp, 0);
    EXPECT_TRUE(tensor::bit_equal(dp_over_tp.tensor, all.narrow(0, 4 * dp_rank + 2 * tp_rank, 2)));
    EXPECT_TRUE(tensor::bit_equal(tp_over_dp.tensor, all.narrow(0, 4 * tp_rank + 2 * dp_rank, 2)));
    EXPECT_EQ(placements_text(dp_over_tp), "x: S(0) on dp, S(0) on tp");
    EXPECT_EQ(placements_text(tp_over_dp), "x: S(0) on tp, S(0) on dp");
    EXPECT_TRUE(tensor::bit_equal(gather_invariant(gather_invariant(dp_over_tp, tp), dp).tensor, all));
    EXPECT_TRUE(tensor::bit_equal(gather_invariant(gather_invariant(tp_over_dp, dp), tp).tensor, all));
    EXPECT_NE(mistake([&] { gather_invariant(dp_over_tp, dp); }).find("Treat tp first."), std::string::npos);
  });
}

}  // namespace
}  // namespace tessera::collective
