#include "tessera/launch/net/tls_key.hpp"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

constexpr std::size_t kMostSecretBytes = 4096;

std::string recipe() { return cat("Make one with: ", kKeyRecipe); }

}  // namespace

JobKey::JobKey(std::string_view secret, std::string job) : job_(std::move(job)) {
  if (secret.size() < kLeastSecretBytes)
    throw UserError(cat("the job's key has ", secret.size(), " bytes, at least ", kLeastSecretBytes,
                        " are needed. ", recipe()));
  std::string salt = "tessera store 1", digest = "SHA256";
  const auto octets = [](const char* name, std::string_view text) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
  };
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
                                   octets(OSSL_KDF_PARAM_KEY, secret), octets(OSSL_KDF_PARAM_SALT, salt),
                                   octets(OSSL_KDF_PARAM_INFO, job_), OSSL_PARAM_construct_end()};
  EVP_KDF* function = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* derivation = EVP_KDF_CTX_new(function);
  const bool derived = EVP_KDF_derive(derivation, bytes_.data(), bytes_.size(), parameters) == 1;
  EVP_KDF_CTX_free(derivation);
  EVP_KDF_free(function);
  TESSERA_CHECK(derived, "OpenSSL has no HKDF");
}

JobKey::~JobKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

Secret::~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

Secret Secret::from_descriptor(const Descriptor& in, const std::string& where) {
  Secret secret;
  secret.bytes_.resize(kMostSecretBytes + 1);  // at once: growing would leave copies behind
  std::size_t have = 0;
  while (have < secret.bytes_.size()) {
    const ssize_t count = read(in.number(), secret.bytes_.data() + have, secret.bytes_.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw UserError(cat("cannot read the job's key from ", where, ": ", system_reason()));
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  if (have > kMostSecretBytes)
    throw UserError(
        cat("the job's key in ", where, " is longer than ", kMostSecretBytes, " bytes. ", recipe()));
  secret.bytes_.resize(have);
  return secret;
}

Secret Secret::from_file(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) throw UserError(cat("cannot read the job's key ", path, ": ", system_reason(), ". ", recipe()));
  struct stat status;
  TESSERA_CHECK(fstat(file.number(), &status) == 0, system_reason());
  if (!S_ISREG(status.st_mode))
    throw UserError(cat("the job's key ", path, " is not a plain file. ", recipe()));
  if (status.st_uid != geteuid())
    throw UserError(
        cat("the job's key ", path, " belongs to user ", status.st_uid, ", not to you. ", recipe()));
  if (status.st_mode & 077)
    throw UserError(cat("others than you may use the job's key ", path, ". Run chmod 600 ", path,
                        ", and make a new key if strangers could have read it."));
  return from_descriptor(file, path);
}

}  // namespace tessera::launch
