#include "tessera/launch/net/handshake.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

std::string_view text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Digest mac(const Digest& secret, const std::string& text) {
  Digest out;
  unsigned int size = 0;
  const auto* made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &size);
  TESSERA_CHECK(made && size == out.size(), "OpenSSL has no HMAC-SHA256");
  return out;
}

Digest proof(const Digest& secret, const char* role, const Digest& listener_number, const Digest& number,
             const std::string& name) {
  return mac(secret, cat(role, text_of(listener_number), text_of(number), name));
}

}  // namespace

Digest fresh_number() {
  Digest out;
  TESSERA_CHECK(RAND_bytes(out.data(), static_cast<int>(out.size())) == 1,
                "the system gives no random numbers");
  return out;
}

std::string to_hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : digest) out += {kDigits[byte >> 4], kDigits[byte & 15]};
  return out;
}

Digest digest_of_hex(std::string_view text) {
  Digest out{};
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() != 2 * out.size()) throw PeerLost("a rank left a malformed secret in the store");
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = value(text[2 * i]), low = value(text[2 * i + 1]);
    if (high < 0 || low < 0) throw PeerLost("a rank left a malformed secret in the store");
    out[i] = static_cast<unsigned char>(16 * high + low);
  }
  return out;
}

Digest hidden_name(const Digest& secret, const std::string& name) { return mac(secret, "name" + name); }

Claim claim_of(const Digest& secret, const Digest& listener_number, const std::string& name) {
  const Digest number = fresh_number();
  return {hidden_name(secret, name), number, proof(secret, "claim", listener_number, number, name)};
}

bool is_proven(const Digest& secret, const Digest& listener_number, const std::string& name,
               const Claim& claim) {
  return are_equal(claim.proof, proof(secret, "claim", listener_number, claim.number, name));
}

Digest answer_to(const Digest& secret, const Digest& listener_number, const std::string& name,
                 const Claim& claim) {
  return proof(secret, "answer", listener_number, claim.number, name);
}

bool are_equal(const Digest& a, const Digest& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace tessera::launch
