#include "tessera/train/servers/inbox.hpp"

#include "tessera/base/error.hpp"
#include "tessera/train/servers/lines.hpp"

namespace tessera::train {

Inbox::Inbox(const std::vector<collective::Group>& from) {
  for (std::size_t worker = 0; worker < from.size(); ++worker)
    threads_.emplace_back([this, worker, group = from[worker]] { listen(static_cast<int>(worker), group); });
}

Inbox::~Inbox() {
  for (std::thread& thread : threads_) thread.join();
}

std::vector<Inbox::Letter> Inbox::take(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return !letters_.empty(); });
  return std::exchange(letters_, {});
}

void Inbox::listen(int worker, const collective::Group& group) {
  std::optional<Ask> ask;
  do {
    ask.reset();
    try {
      ask = static_cast<Ask>(receive_number(group, 0));
    } catch (const PeerLost&) {  // thread edge
    }
    const std::scoped_lock lock(mutex_);
    letters_.push_back({worker, ask});
    changed_.notify_all();
  } while (ask && *ask != Ask::leave);
}

}  // namespace tessera::train
