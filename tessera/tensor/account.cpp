#include "tessera/tensor/account.hpp"

#include <mutex>

#include "tessera/base/error.hpp"

namespace tessera::tensor {

namespace {
// Plain words, so that memory may still be taken and given back while a thread ends.
thread_local const Account* account_of_thread = nullptr;
thread_local Category category_of_thread = Category::other;
}  // namespace

struct Account::Books {
  mutable std::mutex mutex;
  BytesHeld live, at_peak;
  std::int64_t total = 0, peak = 0;

  void write(Category category, std::int64_t change) {
    live.bytes[static_cast<std::size_t>(category)] += change;
    if (category != Category::host) total += change;
  }
  void look() {
    if (total <= peak) return;
    peak = total;
    at_peak = live;
  }
};

Account::Account() : books_(std::make_shared<Books>()) {}

Account Account::current() {
  // Never destroyed: tensors of static objects are given back after the end of main.
  static const Account* const shared = new Account;
  return account_of_thread ? *account_of_thread : *shared;
}

BytesHeld Account::live() const {
  const std::scoped_lock lock(books_->mutex);
  return books_->live;
}

BytesHeld Account::at_peak() const {
  const std::scoped_lock lock(books_->mutex);
  return books_->at_peak;
}

void Account::forget_peak() {
  const std::scoped_lock lock(books_->mutex);
  books_->peak = books_->total;
  books_->at_peak = books_->live;
}

void Account::add(Category category, std::int64_t bytes) const {
  const std::scoped_lock lock(books_->mutex);
  books_->write(category, bytes);
  books_->look();
}

void Account::move(Category from, Category to, std::int64_t bytes) const {
  const std::scoped_lock lock(books_->mutex);
  books_->write(from, -bytes);
  books_->write(to, bytes);
  books_->look();
}

AccountScope::AccountScope(Account account) : account_(std::move(account)), before_(account_of_thread) {
  account_of_thread = &account_;
}
AccountScope::~AccountScope() { account_of_thread = before_; }

CategoryScope::CategoryScope(Category category) : before_(category_of_thread) {
  category_of_thread = category;
}
CategoryScope::~CategoryScope() { category_of_thread = before_; }
Category current_category() { return category_of_thread; }

}  // namespace tessera::tensor
