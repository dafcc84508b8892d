//! Values that no chart should take, and what is said about them.

use anyhow::Result;

use crate::helm::{Helm, NAMESPACE, chart};

/// A value, and what the refusal must contain.
const REFUSED: [(&str, &[&str]); 19] = [
    ("replicas=3", &["additional properties 'replicas' not allowed"]),
    ("controller.replica=3", &["'/controller'", "additional properties 'replica' not allowed"]),
    ("controller.replicas=many", &["'/controller/replicas'", "got string, want integer"]),
    ("haproxy.kind=StatefulSet", &["'/haproxy/kind'", "'Deployment', 'DaemonSet'"]),
    ("haproxy.ports.http=70000", &["'/haproxy/ports/http'", "maximum"]),
    ("haproxy.version=latest", &["'/haproxy/version'"]),
    ("haproxy.service.loadBalancerIP=1.2.3.4", &["'/haproxy/service'", "'loadBalancerIP'"]),
    ("certificates.mode=letsencrypt", &["'/certificates/mode'"]),
    ("certificates.lifetime=soon", &["'/certificates/lifetime'"]),
    ("webhook.failurePolicy=fail", &["'/webhook/failurePolicy'"]),
    ("metrics.haproxy.prt=1", &["'/metrics/haproxy'", "'prt'"]),
    ("config.deployment.maxParalel=1", &["'/config/deployment'", "'maxParalel'"]),
    ("config.watchedResources.pods.apiVersion=v1", &["'/config/watchedResources/pods'", "'resources'"]),
    ("config.podSelector.matchLabels.a=b", &["'/config'", "'podSelector'"]),
    ("plugins.policy.enable=true", &["'/plugins/policy'", "'enable'"]),
    ("spoe.engines.waf.config=x", &["'/spoe/engines/waf'", "'agents'"]),
    ("config.extraContext.http_port=80", &["config.extraContext.http_port", "haproxy.ports.http"]),
    ("libraries={base,nonsense}", &["libraries", "`nonsense`"]),
    ("certificates.mode=existing", &["certificates.existing.controllerSecret", "name the Secret"]),
];

#[test]
fn an_unknown_or_wrong_value_is_refused_with_its_path() -> Result<()> {
    for helm in Helm::both()? {
        for (value, parts) in REFUSED {
            let chart = chart("haptic");
            let said = helm.refusal(&["template", "haptic", &chart, "--namespace", NAMESPACE, "--set", value])?;
            for part in parts {
                assert!(said.contains(part), "{} with {value} does not say {part}: {said}", helm.name);
            }
        }
        let said = helm.refusal(&["template", "crds", &chart("haptic-crds"), "--set", "keeep=false"])?;
        assert!(said.contains("'keeep'"), "{}: {said}", helm.name);
    }
    Ok(())
}
