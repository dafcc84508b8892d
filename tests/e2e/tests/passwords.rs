//! The hashes of the plugin `password` in a userlist, asked for by real requests: HAProxy takes the password of each
//! format and no other.

use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_e2e::{CONFIG, Connection, HaproxyBuild, Haptic, Shop, on_haproxy};

const PASSWORD: &str = "correct horse: battery staple ☃";
const SALT: &str = "0123456789abcdef";

/// A user per format, the filter that hashes the password, and what its hash begins with.
const USERS: [(&str, &str, &str); 7] = [
    ("sha256", "sha256_crypt(salt=salt)", "$5$"),
    ("sha512", "sha512_crypt(salt=salt)", "$6$"),
    ("rounds", "sha512_crypt(salt=salt, rounds=1000)", "$6$rounds=1000$"),
    ("bcrypt-b", "bcrypt(salt=salt, cost=5)", "$2b$05$"),
    ("bcrypt-y", "bcrypt(salt=salt, cost=5, variant='2y')", "$2y$05$"),
    ("yescrypt", "yescrypt(salt=salt)", "$y$j9T$"),
    ("md5", "md5_crypt(salt=salt[:8])", "$1$"),
];

const PLUGIN: &str = "apiVersion: haptic.rs/v1alpha1
kind: HAProxyPlugin
metadata: {name: password, namespace: haptic}
spec:
  module: {builtin: {name: password}}
  limits: {timeout: 2s}
  config: {allowWeak: true}
";

async fn hashes_are_taken(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    shop.write("common/password.yaml", PLUGIN)?;
    shop.edit(CONFIG, "    - name: network\n", "    - name: network\n    - name: password\n")?;
    let users: String = USERS
        .iter()
        .map(|(user, filter, _)| format!("          user {user} password {{{{ secret | {filter} }}}}\n"))
        .collect();
    let snippets = format!(
        r#"  templateSnippets:
    sections/60-passwords:
      template: |
        {{% set secret = "{PASSWORD}" %}}
        {{% set salt = "{SALT}" %}}
        userlist staff
{users}    frontend/40-passwords:
      template: |
        http-request auth realm staff if {{ req.hdr(x-staff) -m found }} !{{ http_auth(staff) }}
"#
    );
    shop.edit(CONFIG, "  templateSnippets:\n", &snippets)?;
    let haptic = Haptic::serve(&shop, &haproxy).await?;
    let config = haptic.config()?;
    assert!(!config.contains(PASSWORD), "the password itself is not in haproxy.cfg");
    for (user, _, start) in USERS {
        // A word of configuration has no bare `$`, which HAProxy would expand in quotes.
        let start = start.replace('$', r"\x24");
        assert!(
            config.contains(&format!("user {user} password {start}")),
            "the hash of {user} is in haproxy.cfg:\n{config}"
        );
        assert_eq!(status(&shop, Some((user, PASSWORD))).await?, 200, "{user} with the password");
        assert_eq!(status(&shop, Some((user, "correct horse"))).await?, 401, "{user} with another password");
    }
    assert_eq!(status(&shop, Some(("nobody", PASSWORD))).await?, 401, "a user that does not exist");
    assert_eq!(status(&shop, None).await?, 401, "no user at all");
    Ok(())
}

on_haproxy!(hashes_are_taken: haproxy_takes_every_format_on_3_0 = "3.0", haproxy_takes_every_format_on_3_4 = "3.4");

async fn status(shop: &Shop, credentials: Option<(&str, &str)>) -> Result<u16> {
    let authorization = credentials.map_or_else(String::new, |(user, password)| {
        format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(format!("{user}:{password}")))
    });
    let mut connection = Connection::open(shop.http()).await?;
    let request =
        format!("GET / HTTP/1.1\r\nHost: shop.localhost\r\nX-Staff: yes\r\n{authorization}Connection: close\r\n\r\n");
    Ok(connection.request(&request).await?.status)
}
