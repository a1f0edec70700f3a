// Who holds how much memory of CPU tensors, and as what. A rank has an account; all its threads write to it.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/base/bytes_held.hpp"

namespace tessera::tensor {

// A handle: copies mean the same account, which lives as long as any of them, or memory that is written to
// it.
class Account {
 public:
  Account();  // a new one
  // That of the calling thread; threads that were given none share one.
  static Account current();

  BytesHeld live() const;
  // What was held when the total was at its highest since the last forget_peak().
  BytesHeld at_peak() const;
  void forget_peak();

  // Of whoever hands out the memory.
  void add(Category category, std::int64_t bytes) const;
  void move(Category from, Category to, std::int64_t bytes) const;

 private:
  struct Books;
  std::shared_ptr<Books> books_;
};

// What the calling thread takes is written to the account while this lives.
class AccountScope {
 public:
  explicit AccountScope(Account account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  Account account_;
  const Account* before_;
};

// What the calling thread takes is held as the category while this lives.
class CategoryScope {
 public:
  explicit CategoryScope(Category category);
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  Category before_;
};
Category current_category();

}  // namespace tessera::tensor
