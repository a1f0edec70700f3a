#include "tessera/train/servers/requests.hpp"

#include <algorithm>

namespace tessera::train {

Requests::Requests(int workers, std::optional<std::int64_t> staleness)
    : staleness_(staleness),
      is_present_(static_cast<std::size_t>(workers), true),
      updates_(static_cast<std::size_t>(workers), 0) {}

void Requests::ask(int worker, Ask ask) {
  if (is_present(worker)) waiting_.push_back({worker, ask});
}

void Requests::remove(int worker) {
  is_present_[static_cast<std::size_t>(worker)] = false;
  std::erase_if(waiting_, [&](const Next& next) { return next.worker == worker; });
}

bool Requests::is_over() const { return std::ranges::none_of(is_present_, std::identity()); }

std::int64_t Requests::ahead(int worker) const {
  std::int64_t least = updates(worker);
  for (std::size_t other = 0; other < updates_.size(); ++other)
    if (is_present_[other]) least = std::min(least, updates_[other]);
  return updates(worker) - least;
}

std::optional<Requests::Next> Requests::take() {
  const auto may = [&](const Next& next) {
    return next.ask != Ask::pull || !staleness_ || ahead(next.worker) <= *staleness_;
  };
  const auto found = std::ranges::find_if(waiting_, may);
  if (found == waiting_.end()) return std::nullopt;
  const Next out = *found;
  waiting_.erase(found);
  if (out.ask == Ask::push) ++updates_[static_cast<std::size_t>(out.worker)];
  return out;
}

}  // namespace tessera::train
