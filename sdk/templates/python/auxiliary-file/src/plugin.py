"""Checks the lines of a text file: how long they are, and that they end in no white space."""

from haptic_plugin import AuxiliaryFile, ConfigError, Report, lines, options

# A person reads no more than this at once.
MAX_FINDINGS = 20


class Validator:
    """The validator, made from the plugin's `config`."""

    def __init__(self, config: dict) -> None:
        # The longest line, in bytes.
        self.max = options(config, max=120).max
        if self.max < 1:
            raise ConfigError("`max` must be at least 1")

    def validate(self, request: AuxiliaryFile) -> Report:
        """Checks one file. The same request must give the same report."""
        report = Report()
        for line in lines(request.file):
            text = line.text.removesuffix(b"\r")
            if len(text) > self.max:
                report.error(line.at(self.max), f"the line has {len(text)} bytes; break it after {self.max}")
            if text.endswith((b" ", b"\t")):
                report.warn(line.at(len(text) - 1), "remove the white space at the end of the line")
            if len(report.errors) + len(report.warnings) >= MAX_FINDINGS:
                break
        return report
