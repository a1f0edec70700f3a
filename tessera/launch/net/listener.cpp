#include "tessera/launch/net/listener.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

struct Listening {
  Descriptor socket;
  ino_t file = 0;  // of the socket's name in its folder
};

std::optional<ino_t> file_at(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

// Under a name of its own first, then moved: so a socket that a dead process has left is replaced in one
// step.
Listening listen_instead(const std::string& path) {
  if (connect_to(path))
    throw UserError(cat("another process serves at ", path, " already. Has this job been started twice?"));
  const std::string own_path = cat(path, ".", getpid());
  unlink(own_path.c_str());
  Listening listening{listen_at(own_path)};
  listening.file = file_at(own_path).value_or(0);
  if (rename(own_path.c_str(), path.c_str()) != 0)
    throw UserError(cat("cannot listen at ", path, ": ", system_reason()));
  return listening;
}

class UnixListener final : public Listener {
 public:
  UnixListener(const std::string& path, Listening listening, uid_t user)
      : Listener(std::move(listening.socket)), path_(path), file_(listening.file), user_(user) {}
  ~UnixListener() override {
    if (file_at(path_) == file_) unlink(path_.c_str());
  }

  Connection receive(Descriptor socket) const override {
    const uid_t user = peer_user(socket);
    Connection connection{plain_channel(std::move(socket))};
    if (user != user_) connection.refusal = cat("the key server serves user ", user_, ", not user ", user);
    return connection;
  }

 private:
  const std::string path_;
  const ino_t file_;
  const uid_t user_;
};

}  // namespace

std::unique_ptr<Listener> unix_listener(const std::string& path, uid_t user) {
  return std::make_unique<UnixListener>(path, listen_instead(path), user);
}

}  // namespace tessera::launch
