#include "tessera/launch/net/tls.hpp"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/net/poll_time.hpp"

namespace tessera::launch {
namespace {

// More than both sides of a handshake with one PSK and one key share ever need.
constexpr std::size_t kMostHandshakeBytes = 8192;

// What OpenSSL wants to know of a session with our key. Its own copies of the key are wiped by OpenSSL.
SSL_SESSION* session_of(SSL* ssl, const JobKey& key) {
  const unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  SSL_SESSION* session = SSL_SESSION_new();
  const bool good = session &&
                    SSL_SESSION_set1_master_key(session, key.bytes().data(), key.bytes().size()) == 1 &&
                    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
                    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  if (good) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

const JobKey& key_of(SSL* ssl) {
  return *static_cast<const JobKey*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, std::size_t* identity_bytes,
              SSL_SESSION** session) {
  const JobKey& key = key_of(ssl);
  *session = nullptr;
  if (digest && !EVP_MD_is_a(digest, "SHA256")) return 1;  // nothing to offer
  *session = session_of(ssl, key);
  *identity = reinterpret_cast<const unsigned char*>(key.job().data());
  *identity_bytes = key.job().size();
  return *session != nullptr;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** session) {
  const JobKey& key = key_of(ssl);
  const bool is_ours =
      identity_bytes == key.job().size() && std::memcmp(identity, key.job().data(), identity_bytes) == 0;
  *session = is_ours ? session_of(ssl, key) : nullptr;
  return 1;
}

// OpenSSL's settings for one key; the key lives as long as handshakes may come.
class Settings {
 public:
  explicit Settings(std::shared_ptr<const JobKey> key)
      : key_(std::move(key)), raw_(SSL_CTX_new(TLS_method())) {
    TESSERA_CHECK(raw_, "OpenSSL has no TLS");
    const bool good = SSL_CTX_set_min_proto_version(raw_, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_max_proto_version(raw_, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_ciphersuites(raw_, "TLS_AES_128_GCM_SHA256") == 1 &&
                      SSL_CTX_set_num_tickets(raw_, 0) == 1 && SSL_CTX_set_max_early_data(raw_, 0) == 1;
    TESSERA_CHECK(good, "OpenSSL has no TLS 1.3");
    SSL_CTX_set_options(raw_, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(raw_, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(raw_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_psk_use_session_callback(raw_, offer_key);
    SSL_CTX_set_psk_find_session_callback(raw_, find_key);
    SSL_CTX_set_app_data(raw_, const_cast<JobKey*>(key_.get()));
  }
  ~Settings() { SSL_CTX_free(raw_); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
  SSL_CTX* raw() const { return raw_; }

 private:
  const std::shared_ptr<const JobKey> key_;
  SSL_CTX* raw_;
};

struct Socket {
  Descriptor descriptor;
  std::size_t num_received = 0;
};

Socket& socket_of(BIO* bio) { return *static_cast<Socket*>(BIO_get_data(bio)); }

// OpenSSL's own socket functions raise SIGPIPE.
int bio_write(BIO* bio, const char* bytes, std::size_t size, std::size_t* written) {
  const ssize_t count = send(socket_of(bio).descriptor.number(), bytes, size, MSG_NOSIGNAL);
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  *written = count > 0 ? static_cast<std::size_t>(count) : 0;
  return count > 0;
}

int bio_read(BIO* bio, char* bytes, std::size_t size, std::size_t* num_read) {
  const ssize_t count = recv(socket_of(bio).descriptor.number(), bytes, size, 0);
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  *num_read = count > 0 ? static_cast<std::size_t>(count) : 0;
  socket_of(bio).num_received += *num_read;
  return count > 0;
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }

const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without signals");
    TESSERA_CHECK(method && BIO_meth_set_write_ex(method, bio_write) &&
                  BIO_meth_set_read_ex(method, bio_read) && BIO_meth_set_ctrl(method, bio_control));
    return method;
  }();
  return kMethod;
}

class TlsChannel final : public Channel {
 public:
  TlsChannel(Descriptor socket, std::shared_ptr<const Settings> settings, bool is_server)
      : socket_{std::move(socket)}, settings_(std::move(settings)), ssl_(SSL_new(settings_->raw())) {
    TESSERA_CHECK(fcntl(socket_.descriptor.number(), F_SETFL, O_NONBLOCK) == 0, system_reason());
    BIO* bio = BIO_new(socket_method());
    TESSERA_CHECK(ssl_ && bio, "no memory for a TLS connection");
    BIO_set_data(bio, &socket_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    is_server ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
    // No certificate is trusted, should a server without the key show one.
    if (!is_server) SSL_set_verify(ssl_, SSL_VERIFY_PEER, nullptr);
  }
  ~TlsChannel() override { SSL_free(ssl_); }

  int descriptor() const override { return socket_.descriptor.number(); }
  short events_to_receive() const override { return settings_ ? events_ : static_cast<short>(POLLIN); }
  short events_to_send() const override { return settings_ ? events_ : static_cast<short>(POLLOUT); }

  std::optional<std::size_t> receive(std::span<char> into) override {
    if (const auto shaken = shake_hands(); shaken != true) return waiting_or_ended(shaken);
    ERR_clear_error();
    std::size_t count = 0;
    const int result = SSL_read_ex(ssl_, into.data(), into.size(), &count);
    return moved(result, count);
  }
  std::optional<std::size_t> send(std::string_view bytes) override {
    if (const auto shaken = shake_hands(); shaken != true) return waiting_or_ended(shaken);
    ERR_clear_error();
    std::size_t count = 0;
    const int result = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &count);
    return moved(result, count);
  }
  void end_sending() override {
    SSL_shutdown(ssl_);
    shutdown(socket_.descriptor.number(), SHUT_WR);
  }

  // True when done, false when it waits, nothing when it failed.
  std::optional<bool> shake_hands() {
    if (!settings_) return true;
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    if (result != 1) {
      const int error = SSL_get_error(ssl_, result);
      if (socket_.num_received > kMostHandshakeBytes) return std::nullopt;
      is_proof_wrong_ = error == SSL_ERROR_SSL;
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return std::nullopt;
      events_ = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      return false;
    }
    // "Reused" is what OpenSSL calls a session by PSK: without it the other end has proven nothing.
    is_proof_wrong_ = SSL_session_reused(ssl_) != 1;
    if (is_proof_wrong_) return std::nullopt;
    settings_.reset();  // and the key with it, when all have come
    return true;
  }
  // What failed was not the connection.
  bool is_proof_wrong() const { return is_proof_wrong_; }

 private:
  static std::optional<std::size_t> waiting_or_ended(std::optional<bool> shaken) {
    if (!shaken) return std::nullopt;
    return 0;
  }
  std::optional<std::size_t> moved(int result, std::size_t count) {
    if (result == 1) return count;
    const int error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
    return std::nullopt;
  }

  Socket socket_;
  std::shared_ptr<const Settings> settings_;  // until the handshake is done
  SSL* ssl_;
  bool is_proof_wrong_ = false;
  short events_ = POLLIN;  // while the handshake waits
};

class TlsListener final : public Listener {
 public:
  TlsListener(Descriptor listening, std::shared_ptr<const JobKey> key)
      : Listener(std::move(listening)), settings_(std::make_shared<const Settings>(std::move(key))) {}

  Connection receive(Descriptor connection) const override {
    return {std::make_unique<TlsChannel>(std::move(connection), settings_, true)};
  }

 private:
  const std::shared_ptr<const Settings> settings_;
};

}  // namespace

std::unique_ptr<Channel> tls_channel(Descriptor connected, std::shared_ptr<const JobKey> key,
                                     double deadline_seconds) {
  auto channel = std::make_unique<TlsChannel>(std::move(connected),
                                              std::make_shared<const Settings>(std::move(key)), false);
  while (true) {
    const auto shaken = channel->shake_hands();
    if (channel->is_proof_wrong())
      throw UserError(
          "the store does not hold the key of this job. Give all ranks the same key, and start all of them "
          "as one job.");
    if (!shaken) return nullptr;
    if (*shaken) return channel;
    if (now_seconds() >= deadline_seconds) return nullptr;
    pollfd polled{channel->descriptor(), channel->events_to_receive(), 0};
    poll(&polled, 1, poll_milliseconds(deadline_seconds));
  }
}

std::unique_ptr<Listener> tls_listener(Descriptor listening, std::shared_ptr<const JobKey> key) {
  return std::make_unique<TlsListener>(std::move(listening), std::move(key));
}

}  // namespace tessera::launch
