"""What templates' parts are called on pages."""

from typing import Final, get_args

from quillpost.api.v2.schemas.image_templates import ImageType
from quillpost.api.v2.schemas.message_templates import MessageType
from quillpost.dashboard.piece_names import TYPE_NAMES

MESSAGE_TYPES: Final = [(name, TYPE_NAMES[name]) for name in get_args(MessageType)]
IMAGE_TYPES: Final = [(name, TYPE_NAMES[name]) for name in get_args(ImageType)]
