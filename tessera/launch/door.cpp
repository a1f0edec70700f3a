#include "tessera/launch/door.hpp"

#include <unistd.h>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

class UnixDoor final : public Door {
 public:
  UnixDoor(const std::string& path, uid_t user) : Door(listen_at(path)), path_(path), user_(user) {}
  ~UnixDoor() override { unlink(path_.c_str()); }

  Visitor receive(Descriptor connection) const override {
    const uid_t user = peer_user(connection);
    Visitor visitor{plain_channel(std::move(connection))};
    if (user != user_) visitor.refusal = cat("the key server serves user ", user_, ", not user ", user);
    return visitor;
  }

 private:
  const std::string path_;
  const uid_t user_;
};

}  // namespace

std::unique_ptr<Door> unix_door(const std::string& path, uid_t user) {
  return std::make_unique<UnixDoor>(path, user);
}

}  // namespace tessera::launch
