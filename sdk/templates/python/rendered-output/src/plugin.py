"""Refuses directives that must not be in `haproxy.cfg`."""

from haptic_plugin import ConfigError, RenderedOutput, Report, lines, options

# A person reads no more than this at once.
MAX_FINDINGS = 20


class Validator:
    """The validator, made from the plugin's `config`."""

    def __init__(self, config: dict) -> None:
        # First words of lines that must not be.
        forbidden = options(config, forbidden=["debug"]).forbidden
        if not all(isinstance(word, str) and word for word in forbidden):
            raise ConfigError("`forbidden` must hold words")
        self.forbidden = {word.encode() for word in forbidden}

    def validate(self, request: RenderedOutput) -> Report:
        """Checks one render. The same request must give the same report."""
        report = Report()
        for line in lines(request.config):
            text = line.text.lstrip(b" \t\r")
            word = text.replace(b"\t", b" ").replace(b"\r", b" ").split(b" ", 1)[0]
            if word in self.forbidden:
                start = len(line.text) - len(text)
                report.error(line.at(start), f"`{word.decode()}` must not be used here; remove the line")
            if len(report.errors) >= MAX_FINDINGS:
                break
        return report
