"""What is wrong with a server, in the words of Python and of the command line."""

import pytest

import neargraph as ng
from neargraph.cli.app import main
from neargraph.cli.errors import one_line
from neargraph.exceptions import request_failed
from neargraph.remedies import _SERVER_WORDS, in_python, of_reason, on_command_line

OPTIONS = frozenset(["--address", "--ca", "--graph", "--model", "--server-name", "--token-file"])


@pytest.mark.parametrize("reason", _SERVER_WORDS)
def test_each_reason_has_words_of_each_face(reason):
    remedy = of_reason(reason)
    python, command = in_python(remedy), on_command_line(remedy, OPTIONS)
    assert python
    assert "--" not in python
    assert command
    assert "=" not in command


def test_a_missing_token_is_given_as_each_face_takes_it():
    header = 'send the metadata "authorization: Bearer TOKEN" with a valid token'
    error = request_failed(
        "Unauthenticated", "NO_TOKEN", "this server requires a token", "", header
    )
    assert str(error) == "this server requires a token; give a valid token with token="
    assert error.remedy == "give a valid token with token="
    assert one_line(error, OPTIONS) == (
        "this server requires a token; give a valid token with --token-file or the variable "
        "NEARGRAPH_TOKEN"
    )


def test_words_of_the_server_become_options():
    remedy = "name a graph, such as graph='papers'"
    error = request_failed("NotFound", "GRAPH_NOT_FOUND", "no graph name", "graph", remedy)
    assert str(error).endswith("graph='papers'")
    assert one_line(error, OPTIONS).endswith("name a graph, such as --graph papers")


def test_a_server_that_is_not_there_is_named_with_what_to_do(capfd):
    message = r"at 127\.0\.0\.1:1: tcp connect.*address="
    with (
        ng.Client("127.0.0.1:1", retry=0) as client,
        pytest.raises(ng.ServerUnavailable, match=message),
    ):
        client.server_info()
    with pytest.raises(SystemExit):
        main(["query", "--model", "a", "--nodes", "1", "--address", "127.0.0.1:1"])
    err = capfd.readouterr().err
    assert "cannot reach the server at 127.0.0.1:1" in err
    assert "start it with `neargraph serve`, or give another address with --address" in err
