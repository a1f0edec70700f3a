#include "tessera/data/tokenize/encoding_threads.hpp"

#include <algorithm>

namespace tessera::data {

EncodingThreads::EncodingThreads(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer,
                                 std::function<std::optional<Batch>()> read)
    : options_(options), most_(2 * static_cast<std::size_t>(options.threads) + 2) {
  for (int i = 0; i < options.threads; ++i)
    threads_.emplace_back([this, encoder = tokenizer.encoder()] { encode_all(*encoder); });
  threads_.emplace_back([this, read = std::move(read)] { read_all(read); });
}

EncodingThreads::~EncodingThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void EncodingThreads::read_all(const std::function<std::optional<Batch>()>& read) {
  for (bool is_more = true; is_more;) {
    auto slot = std::make_unique<Slot>();
    try {
      auto batch = read();
      is_more = batch.has_value();
      if (batch) slot->batch = std::move(*batch);
    } catch (...) {
      slot->batch.error = std::current_exception();
      slot->is_begun = slot->is_done = true;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_stopped_ || slots_.size() < most_; });
    if (slot->is_done || !is_more || is_stopped_) {
      is_more = false;
      is_read_ = true;
    }
    if (is_more || slot->is_done) slots_.push_back(std::move(slot));
    changed_.notify_all();
  }
}

void EncodingThreads::encode_all(tokenizer::Encoder& encoder) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto find = [this] {
      return std::ranges::find_if(slots_, [](const auto& slot) { return !slot->is_begun; });
    };
    changed_.wait(lock, [&] { return is_stopped_ || is_read_ || find() != slots_.end(); });
    const auto found = find();
    if (is_stopped_ || found == slots_.end()) return;
    Slot& slot = **found;
    slot.is_begun = true;
    lock.unlock();
    try {
      encode(slot.batch, options_, encoder);
    } catch (...) {
      slot.batch.error = std::current_exception();
    }
    lock.lock();
    slot.is_done = true;
    changed_.notify_all();
  }
}

std::optional<Batch> EncodingThreads::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return slots_.empty() ? is_read_ : slots_.front()->is_done; });
  if (slots_.empty()) return std::nullopt;
  Batch batch = std::move(slots_.front()->batch);
  slots_.pop_front();
  changed_.notify_all();
  if (batch.error) std::rethrow_exception(batch.error);
  return batch;
}

}  // namespace tessera::data
