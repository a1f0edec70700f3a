#include "tessera/train/servers/lines.hpp"

#include "tessera/tensor/tensor.hpp"

namespace tessera::train {

using collective::Communicator;
using collective::Group;

namespace {

constexpr int kTag = 0;

}  // namespace

void send_number(const Group& group, std::int64_t number, int to) {
  group.send(tensor::view_of(&number, {1}, at::kLong), to, kTag);
}

std::int64_t receive_number(const Group& group, int from) {
  std::int64_t number = 0;
  at::Tensor into = tensor::view_of(&number, {1}, at::kLong);
  group.receive(into, from, kTag);
  return number;
}

std::vector<std::int64_t> numbers_of_first(const Group& group, std::vector<std::int64_t> numbers) {
  at::Tensor all = tensor::view_of(numbers.data(), {std::ssize(numbers)}, at::kLong);
  group.broadcast(all, 0);
  return numbers;
}

double most_of(const Group& group, double value) {
  at::Tensor all = tensor::view_of(&value, {1}, at::kDouble);
  group.all_reduce_max(all);
  return value;
}

Lines lines_of(const Communicator& all, const Team& team) {
  std::vector<std::vector<int>> lists;
  const auto worker = team.worker_of(all.rank());
  for (int each = 0; each < team.workers(); ++each) {
    const bool is_end = worker ? *worker == each && all.rank() == team.first_of_worker(each)
                               : all.rank() == team.first_server();
    if (is_end) lists.push_back({team.first_of_worker(each), team.first_server()});
  }
  lists.push_back(worker ? team.ranks_of_worker(*worker) : team.server_ranks());
  auto groups = collective::make_groups(all, lists);
  Lines out{.to_server = {groups.begin(), groups.end() - 1}, .team = groups.back()};
  return out;
}

}  // namespace tessera::train
