// A file descriptor with an owner, and the words for what a system call has refused.
#pragma once

#include <string>
#include <utility>

namespace tessera {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset();
  // Gives it up without closing it.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

// Two ends of a stream that no other process can reach. Throws UserError when the system refuses.
std::pair<Descriptor, Descriptor> connected_pair();

// What the system says about errno, for messages.
std::string system_reason();

}  // namespace tessera
