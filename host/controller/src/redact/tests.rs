use super::*;

#[test]
fn passwords_are_masked_and_nothing_else() {
    let text = concat!(
        "userlist people\n",
        "  user ann password $6$rounds=5000$abcdefgh$ijklmnop groups admins\n",
        "  user bob insecure-password \"two words\\\" more\" groups users\n",
        "  user carl groups admins password plain\\ text\n",
        "frontend stats\n",
        "  stats auth admin:hunter2\n",
        "  http-request set-header Authorization \"Basic aHVudGVyMg==\" if secret\n",
        "  http-check send meth GET uri / hdr Authorization aHVudGVyMg==\n",
        "  http-request deny if { path /password reset }\n",
        "backend password\n",
        "  server user 10.0.0.1:80 weight 1\n",
    );
    let expected = concat!(
        "userlist people\n",
        "  user ann password *** groups admins\n",
        "  user bob insecure-password *** groups users\n",
        "  user carl groups admins password ***\n",
        "frontend stats\n",
        "  stats auth ***\n",
        "  http-request set-header Authorization *** if secret\n",
        "  http-check send meth GET uri / hdr Authorization ***\n",
        "  http-request deny if { path /password reset }\n",
        "backend password\n",
        "  server user 10.0.0.1:80 weight 1\n",
    );
    assert_eq!(redacted(text), expected);
}

#[test]
fn a_private_key_is_found_in_whatever_file_it_stands() {
    for kind in ["", "RSA ", "EC ", "ENCRYPTED ", "OPENSSH "] {
        assert!(has_private_key(&format!("some text\n-----BEGIN {kind}PRIVATE KEY-----\nAAAA\n")));
    }
    assert!(!has_private_key("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
}
