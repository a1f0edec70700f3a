#include "tessera/collective/closed_door.hpp"

#include <dirent.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>

#include "tessera/base/error.hpp"

namespace tessera::collective {
namespace {

int socket_option(int descriptor, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  return getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

template <typename Predicate>
std::set<int> tcp_sockets(const Predicate& is_wanted) {
  std::set<int> found;
  DIR* folder = opendir("/proc/self/fd");
  CHECK(folder, "no /proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const int descriptor = std::atoi(entry->d_name);
    const int family = socket_option(descriptor, SO_DOMAIN);
    if ((family == AF_INET || family == AF_INET6) && is_wanted(descriptor)) found.insert(descriptor);
  }
  closedir(folder);
  return found;
}

}  // namespace

std::set<int> listening_sockets() {
  return tcp_sockets([](int descriptor) { return socket_option(descriptor, SO_ACCEPTCONN) == 1; });
}

std::set<int> connected_sockets() {
  return tcp_sockets([](int descriptor) {
    sockaddr_storage address;
    socklen_t size = sizeof(address);
    return getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  });
}

void break_off(const std::set<int>& sockets) {
  for (const int socket : sockets) shutdown(socket, SHUT_RDWR);
}

void close_to_strangers(const std::set<int>& sockets) {
  sock_filter keep_nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter{1, &keep_nothing};
  for (const int socket : sockets) {
    if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0) continue;
    CHECK(errno == EBADF || errno == ENOTSOCK, "the system does not take a filter for socket ", socket);
  }
}

}  // namespace tessera::collective
