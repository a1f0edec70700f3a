// What the launcher knows of one rank: its process, its stderr and how it ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tessera/launch/net/unix_socket.hpp"

namespace tessera::launch {

struct Ending {
  int code = 0;  // exit code, or 128 + signal
  int signal = 0;
};

class Child {
 public:
  // Starts the process in a group of its own; it dies with the calling thread. Of the descriptors that are
  // closed on exec it keeps `inherited`, under the same numbers. It begins with the signals `blocked`, which
  // wait until it takes them. Throws UserError when it can't fork.
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
        const std::vector<const Descriptor*>& inherited, const sigset_t& blocked);
  Child(Child&&) noexcept = default;
  Child& operator=(Child&&) noexcept = default;

  // -1 once its stderr is closed.
  int errors_descriptor() const { return errors_.number(); }
  // Reads what there is.
  void collect_errors();
  // The whole lines among it, each once; with `all` also what is left of one.
  std::vector<std::string> take_error_lines(bool all);
  pid_t process() const { return pid_; }

  // How it ended, if it has; whatever it left behind in its process group is killed.
  const std::optional<Ending>& ending();
  // To the whole process group.
  void signal(int number) const;

 private:
  pid_t pid_ = -1;
  Descriptor errors_;
  std::string unread_;  // of its stderr
  std::optional<Ending> ending_;
};

// "exit code 2" or "signal 9 (Killed)".
std::string to_text(const Ending& ending);

}  // namespace tessera::launch
