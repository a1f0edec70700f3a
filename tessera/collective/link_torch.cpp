#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/base/error.hpp"
#include "tessera/collective/link.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::collective {
namespace {

// Waits until it is received; throws if it failed. On a device wait() only makes the calling thread's stream
// wait.
void finish(c10d::Work& send, c10::Device device) {
  constexpr std::chrono::microseconds kLook{100};
  while (!device.is_cpu() && !send.isCompleted()) std::this_thread::sleep_for(kLook);
  send.wait();
  if (const auto error = send.exception()) std::rethrow_exception(error);
}

class DoneWork final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
  bool isCompleted() override { return true; }
};

}  // namespace

c10::intrusive_ptr<c10d::Work> done_work() { return c10::make_intrusive<DoneWork>(); }

Outbox::~Outbox() {
  {
    std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Outbox::keep(c10::intrusive_ptr<c10d::Work> send, c10::Device device) {
  check();
  if (send->isCompleted() && !send->exception()) return;
  std::scoped_lock lock(mutex_);
  sends_.push_back(std::move(send));
  ++num_under_way_;
  if (!thread_.joinable()) thread_ = std::thread([this, device] { wait_for_sends(device); });
  changed_.notify_all();
}

void Outbox::check() const {
  std::scoped_lock lock(mutex_);
  if (failure_) throw PeerLost(cat("an earlier send failed: ", *failure_));
}

std::size_t Outbox::wait(std::chrono::milliseconds patience) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return num_under_way_ == 0 || failure_; });
    if (!failure_) return num_under_way_;
  }
  check();
  return 0;
}

void Outbox::wait_for_sends(c10::Device device) {
  tensor::use_own_stream(device);  // a thread begins with the stream of the compute lane
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !sends_.empty(); });
    if (sends_.empty()) return;
    const auto send = sends_.front();
    sends_.pop_front();
    lock.unlock();
    std::optional<std::string> failure;
    try {
      finish(*send, device);
    } catch (const std::exception& error) {
      failure = short_text(error);
    }
    lock.lock();
    if (!failure_) failure_ = failure;
    --num_under_way_;
    changed_.notify_all();
  }
}

std::string short_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  // c10d puts its source line before its message and advice about other logs after it.
  if (const auto source = text.find("[/"); source != std::string::npos)
    if (const auto end = text.find("] ", source); end != std::string::npos)
      text.erase(source, end + 2 - source);
  return text.substr(0, std::min(text.find('\n'), text.find(". This is typically caused")));
}

std::shared_ptr<Link> make_link(const std::vector<int>& ranks, int own) {
  auto link = std::make_shared<Link>();
  link->ranks = ranks;
  link->rank = static_cast<int>(std::ranges::find(ranks, own) - ranks.begin());
  return link;
}

}  // namespace tessera::collective
