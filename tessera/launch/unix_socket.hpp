// How do processes of one user reach each other on one machine? Over Unix sockets, and both sides look at who the
// other is.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace tessera::launch {

// A file descriptor with an owner.
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

 private:
  int number_ = -1;
};

// A descriptor that this process was started with, by its number as text; `where` is the variable that names it. Not
// passed on to further programs. Throws UserError when it isn't open.
Descriptor inherited_descriptor(const std::string& number, const std::string& where);

// Both throw UserError when the path is too long. listen_at throws it also when the system refuses; connect_to then
// returns nothing, with errno set.
Descriptor listen_at(const std::string& path);
Descriptor connect_to(const std::string& path);

// The user at the other end of a connected Unix socket.
uid_t peer_user(const Descriptor& socket);

// What the system says about errno, for messages.
std::string system_reason();

}  // namespace tessera::launch
