"""Joins plugin.py to the contract. There is nothing to edit here."""

import json

import haptic_plugin
import plugin
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types

_validator = None


class AuxiliaryFileValidator(exports.AuxiliaryFileValidator):
    def configure(self, config):
        global _validator
        try:
            _validator = plugin.Validator(json.loads(config))
        except haptic_plugin.ConfigError as error:
            raise Err(str(error))
        except Exception as error:
            raise Err(f"it stopped at {haptic_plugin.place(error)}")

    def validate(self, request):
        try:
            report = _validator.validate(
                haptic_plugin.AuxiliaryFile(
                    haptic_plugin.File(request.file),
                    [haptic_plugin.File(file) for file in request.data_files],
                    request.now,
                )
            )
        except haptic_plugin.PluginError as error:
            raise Err(types.PluginError(str(error)))
        except Exception as error:
            raise Err(types.PluginError(f"it stopped at {haptic_plugin.place(error)}"))
        verdict = types.Verdict[report.verdict.upper()]
        return types.Report(verdict, _findings(report.warnings), _findings(report.errors))


def _findings(findings):
    return [types.Finding(f.position.path, f.position.line, f.position.column, f.message) for f in findings]
