"""Joins plugin.py to the contract. There is nothing to edit here."""

import json

import haptic_plugin
import plugin
from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import template_filters

_filters = None


class TemplateFilters(exports.TemplateFilters):
    def configure(self, config):
        global _filters
        try:
            _filters = plugin.Filters(json.loads(config))
        except haptic_plugin.ConfigError as error:
            raise Err(str(error))
        except Exception as error:
            raise Err(f"it stopped at {haptic_plugin.place(error)}")

    def declarations(self):
        return [template_filters.Declaration(name, doc) for name, doc in plugin.Filters.FILTERS.items()]

    def call(self, name, value, positional, named):
        if name not in plugin.Filters.FILTERS:
            raise Err(template_filters.FilterError_Failed(f"there is no filter `{name}`"))
        try:
            value = haptic_plugin.read_json(value)
            positional = [haptic_plugin.read_json(argument) for argument in positional]
            keywords = {keyword: haptic_plugin.read_json(argument) for keyword, argument in named}
            return json.dumps(getattr(_filters, name)(value, positional, keywords), allow_nan=False)
        except haptic_plugin.Refused as error:
            raise Err(template_filters.FilterError_Refused(str(error)))
        except haptic_plugin.Failed as error:
            raise Err(template_filters.FilterError_Failed(str(error)))
        except Exception as error:
            raise Err(template_filters.FilterError_Failed(f"it stopped at {haptic_plugin.place(error)}"))
