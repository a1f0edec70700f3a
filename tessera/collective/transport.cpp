#include "tessera/collective/transport.hpp"

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {

double sum_of_two(const Communicator& communicator) {
  constexpr std::int64_t kElements = 1000;
  const auto group = make_groups(communicator, {{0, 1}}).at(0);
  tensor::Tensor t = tensor::empty({kElements}, at::kFloat).fill_(communicator.rank() + 1);
  group.all_reduce_sum(t);
  return t.sum().item<double>() / kElements;
}

Trial judge_sum(double sum, const std::string& failure, double begin, const std::string& advice) {
  if (!failure.empty()) return {Trial::Result::broken, cat("does not work: ", failure), advice};
  if (sum != 3)
    return {Trial::Result::broken, cat("adds 1 and 2 to ", sum), "tell the authors: this is a bug"};
  return {Trial::Result::works,
          cat("works: two ranks met and summed in ", fixed((now_seconds() - begin) * 1e3, 0), " ms"), ""};
}

}  // namespace tessera::collective
