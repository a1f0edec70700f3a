// The key that all ranks of a job share: a file that only its owner may read, or an inherited descriptor. It
// is wiped from memory with its last owner.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "tessera/launch/net/unix_socket.hpp"

namespace tessera::launch {

// What makes a key, for people to type.
inline constexpr char kKeyRecipe[] = "(umask 077; head -c 32 /dev/urandom > job.key)";

class JobKey {
 public:
  // Bytes for this job alone, derived from the secret by HKDF-SHA256. Throws UserError when the secret is
  // shorter than kLeastSecretBytes.
  JobKey(std::string_view secret, std::string job);
  ~JobKey();
  JobKey(const JobKey&) = delete;
  JobKey& operator=(const JobKey&) = delete;

  const std::string& job() const { return job_; }
  std::span<const unsigned char> bytes() const { return bytes_; }

  static constexpr std::size_t kLeastSecretBytes = 16;

 private:
  std::string job_;
  std::array<unsigned char, 32> bytes_{};
};

// The secret's bytes, wiped when done.
class Secret {
 public:
  // Throws UserError unless it is a file that belongs to this user and nobody else may touch.
  static Secret from_file(const std::string& path);
  // All that is to be read; `where` names it in errors.
  static Secret from_descriptor(const Descriptor& in, const std::string& where);
  ~Secret();
  Secret(Secret&&) = default;

  std::string_view bytes() const { return bytes_; }

 private:
  Secret() = default;
  std::string bytes_;
};

}  // namespace tessera::launch
