#include "tessera/base/process/peer_connector.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::vector<Descriptor> MemoryConnector::connect(const std::vector<PeerRequest>& requests,
                                                 std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  std::vector<Descriptor> out;
  std::vector<std::string> left;  // names whose other end nobody has taken
  for (const PeerRequest& request : requests) {
    if (auto end = awaited_.extract(request.name)) {
      out.push_back(std::move(end.mapped()));
      continue;
    }
    auto [ours, theirs] = connected_pair();
    out.push_back(std::move(ours));
    awaited_.emplace(request.name, std::move(theirs));
    left.push_back(request.name);
  }
  changed_.notify_all();
  const auto all_taken = [&] {
    std::erase_if(left, [&](const std::string& name) { return !awaited_.contains(name); });
    return left.empty();
  };
  if (changed_.wait_for(lock, timeout, all_taken)) return out;
  for (const std::string& name : left) awaited_.erase(name);
  throw PeerLost(cat("no peer asked for ", join(left, ", "), " within ", timeout.count(), " ms"));
}

}  // namespace tessera
