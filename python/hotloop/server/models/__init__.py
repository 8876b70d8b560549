"""The JSON of the API, as the OpenAPI document describes it; one module per group of routes.

Responses are made of plain values and are not validated again: the tests check them against these models.
"""
