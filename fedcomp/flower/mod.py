"""The client's half: a Flower mod that replaces the arrays of a train reply by one payload."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flwr.app import Array, Context, Error, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode

from fedcomp.compressors.base import Compressor
from fedcomp.compressors.registry import compressor
from fedcomp.errors import FedcompError
from fedcomp.feedback import ErrorFeedback
from fedcomp.flower.arrays import difference
from fedcomp.flower.instructions import Instructions
from fedcomp.flower.residual import keep_residual, load_residual
from fedcomp.flower.update import EncodedArrays, only_array_record, with_arrays
from fedcomp.vectors import TensorSpec, VectorSpec

# Below Flower's own logger, so that the lines come out where and as Flower's do.
log = logging.getLogger("flwr.fedcomp")


def compression_mod(msg: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Compress the app's reply to a message that came through a ``CompressedGrid``; leave all others as they are.

    List it first, so that it is outermost: ``ClientApp(mods=[compression_mod, …])`` or ``@app.train(mods=[…])``. The
    app and the mods after it see the message and its arrays as without compression.

    Where the compressor is biased (``sign``, ``topk``, …) what an encoding lost is kept in ``context.state`` and added
    to the next update.

    Parameters
    ----------
    msg, context, call_next
        As Flower gives them to a mod.

    Returns
    -------
    Message
        The reply. An error reply says why it could not be compressed: the app answered with other arrays or shapes than
        it received, its update is not finite, or this version of fedcomp lacks the compressor.
    """
    try:
        instructions = Instructions.taken_from(msg.content)
        if instructions is None:
            return call_next(msg, context)
        # What is wrong with the instructions is said before any training. The app may empty the record it is given.
        codec = compressor(instructions.compressor)
        received = dict(only_array_record(msg.content))
    except FedcompError as error:
        return _refuse(msg, error)
    reply = call_next(msg, context)
    if reply.has_error():
        return reply
    try:
        encoded = _encode(reply.content, received, instructions, codec, context.state)
        reply.content = with_arrays(reply.content, encoded.to_record())
    except FedcompError as error:
        return _refuse(msg, error)
    return reply


def _encode(
    content: RecordDict,
    received: Mapping[str, Array],
    instructions: Instructions,
    codec: Compressor,
    state: RecordDict,
) -> EncodedArrays:
    # Flower may send float64 in one round what was float32 before; the vector is float32, and so is the residual.
    layout = VectorSpec(
        tuple(
            TensorSpec(name, tuple(array.shape), instructions.raw.get(name, "float32"))
            for name, array in received.items()
        )
    )
    vector, raw = difference(layout, received, only_array_record(content))
    if codec.is_unbiased:
        return EncodedArrays(codec.encode(vector, seed=instructions.seed, shapes=layout.shapes), raw)
    feedback = ErrorFeedback(codec, load_residual(state, layout))
    payload = feedback.encode(vector, seed=instructions.seed, shapes=layout.shapes)
    if feedback.residual is not None:
        keep_residual(state, layout, feedback.residual)
    return EncodedArrays(payload, raw)


def _refuse(msg: Message, error: FedcompError) -> Message:
    reason = f"{type(error).__name__}: {error}"
    log.error("compression_mod: %s", reason)
    return Message(Error(code=ErrorCode.MOD_FAILED_PRECONDITION, reason=reason), reply_to=msg)
