"""What should become of orders and their pieces, in plain Python: the model beside the state machine's test.

It knows nothing of the database. What the service chooses freely, as ids and barcodes, it is told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus, OrderStatus

S = ItemStatus
HOME = "US"
UNDER_WAY = (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.RE_ROUTED)
MADE = (OrderStatus.PROCESSING, OrderStatus.PRINTING, OrderStatus.MAILED)
NOT_YET_MAILED = (S.PROCESSING, S.PRINTED)


@dataclass(eq=False)
class ModelItem:
    id: int
    country: str
    cents: int
    status: ItemStatus
    is_reserved: bool = False
    """Its name asks for the failure of its address."""
    fits: bool = True
    is_over: bool = False
    is_inferred: bool = False
    is_mailed: bool = False
    """The carrier has it, or had it."""

    @property
    def has_ended(self) -> bool:
        return self.is_over or self.status in FINAL_STATUSES

    def move(self, to: ItemStatus, *, inferred: bool = False) -> None:
        """One step further, if it may follow; a return outweighs a delivery that nobody saw."""
        is_corrected = self.is_inferred and to is S.RETURNED_TO_SENDER
        if self.is_over or not (to in NEXT_STATUSES[self.status] or is_corrected):
            return
        if self.country != HOME and to not in (S.PRINTED, S.FAILED):
            return
        self.is_mailed = self.is_mailed if to is S.FAILED else to is not S.PRINTED
        self.status, self.is_inferred = to, inferred

    def hand_over(self) -> None:
        """The carrier has it; abroad nobody sees it again."""
        if self.status is S.PRINTED and not self.is_mailed:
            self.is_mailed, self.is_over = True, self.country != HOME

    def print_again(self) -> None:
        """It was not mailed after all."""
        if self.status is S.PRINTED:
            self.is_mailed = self.is_over = False

    def spoil(self) -> None:
        """What never left the printer can still spoil, for abroad too; nothing that the carrier has seen."""
        if self.status is S.PRINTED:
            self.is_over = self.is_mailed = False
        if self.status in (S.PROCESSING, S.PRINTED):
            self.move(S.FAILED)

    def give_up(self) -> None:
        """Nobody will see it again: it stays where it was sent on, or was surely delivered."""
        if self.status is S.RE_ROUTED:
            self.is_over = True
        else:
            self.move(S.DELIVERED, inferred=True)

    def see(self, target: ItemStatus | None) -> None:
        """The carrier's newest sighting. Whatever it has seen was printed."""
        if target is None:
            return
        if self.status is S.PROCESSING:
            self.move(S.PRINTED)
        self.hand_over()
        if self.is_inferred and target is S.DELIVERED:
            self.is_inferred = False
        self.move(target)


@dataclass(eq=False)
class ModelOrder:
    id: int
    mail_class: str
    pieces: Sequence[ModelItem]
    due_at: datetime
    status: OrderStatus = OrderStatus.REVIEWING
    pool_at: datetime | None = None
    rush: bool = False

    @property
    def has_ended(self) -> bool:
        return all(piece.has_ended for piece in self.pieces)

    @property
    def is_mailed(self) -> bool:
        """Every piece that will be mailed is with the carrier."""
        waiting = [piece for piece in self.pieces if not piece.is_mailed and piece.status is not S.FAILED]
        return not waiting and any(piece.is_mailed for piece in self.pieces)

    @property
    def is_doubtful(self) -> bool:
        """More than half of its people have no address, and the others are not to be mailed unseen."""
        counted = [piece for piece in self.pieces if not piece.is_reserved]
        nowhere = sum(piece.status is S.FAILED for piece in counted)
        return 2 * nowhere > len(counted) and any(piece.status is S.PROCESSING for piece in self.pieces)

    def stop(self, to: OrderStatus) -> None:
        self.status, self.pool_at = to, None
        for piece in self.pieces:
            piece.move(S.FAILED)

    def let_go(self, *, pools_at: datetime, now: datetime) -> None:
        self.status = OrderStatus.PROCESSING
        for piece in self.pieces:
            if piece.is_reserved:
                piece.move(S.FAILED)
        if any(piece.status is S.PROCESSING for piece in self.pieces):
            self.pool_at = max(self.due_at, now if self.rush else pools_at)


@dataclass(eq=False)
class ModelPrint:
    """A piece as it lies, or will lie, on paper."""

    position: int
    piece: ModelItem
    tracking: str | None
    is_superseded: bool = False


@dataclass(eq=False)
class ModelBatch:
    id: int
    editions: list[ModelPrint]
    reprint_of: int | None = None
    status: str = "new"
    is_handed: bool = False

    @property
    def counting(self) -> list[ModelPrint]:
        return [edition for edition in self.editions if not edition.is_superseded]

    def take_out_ended(self) -> None:
        self.editions = [edition for edition in self.editions if edition.piece.status not in FINAL_STATUSES]

    def draw(self) -> None:
        """What has ended is not drawn, and what does not fit cannot be."""
        self.take_out_ended()
        for edition in self.editions:
            if not edition.piece.fits:
                edition.piece.move(S.FAILED)
        self.take_out_ended()

    def take(self, *, printed: bool, mailed: bool, spoiled: Iterable[ModelItem]) -> None:
        """What the printer says of it."""
        torn = list(spoiled)
        for edition in self.counting:
            if edition.piece in torn:
                edition.piece.spoil()
        if (printed or mailed) and self.status == "handed":
            self.status = "printed"
            for edition in self.counting:
                edition.piece.move(S.PRINTED)
        if mailed and self.status == "printed":
            self.status = "mailed"
            for edition in self.counting:
                edition.piece.hand_over()

    def again(self, positions: Iterable[int]) -> list[ModelPrint]:
        """Those of these places that can be printed again."""
        chosen = set(positions)
        return [e for e in self.counting if e.position in chosen and e.piece.status in NOT_YET_MAILED]


@dataclass
class LifecycleModel:
    orders: dict[int, ModelOrder] = field(default_factory=dict)
    batches: dict[int, ModelBatch] = field(default_factory=dict)

    @property
    def pieces(self) -> dict[int, ModelItem]:
        return {piece.id: piece for order in self.orders.values() for piece in order.pieces}

    @property
    def barcodes(self) -> dict[str, ModelItem | None]:
        """Every barcode that was ever given, and the piece it speaks for: for none that of an old edition, or
        of paper that nobody has."""
        return {
            edition.tracking: edition.piece if batch.is_handed and not edition.is_superseded else None
            for batch in self.batches.values()
            for edition in batch.editions
            if edition.tracking is not None
        }

    @property
    def reprintable(self) -> list[ModelBatch]:
        handed = [batch for batch in self.batches.values() if batch.is_handed]
        return [batch for batch in handed if batch.again(e.position for e in batch.editions)]

    def orders_of(self, batch: ModelBatch) -> list[ModelOrder]:
        inside = {edition.piece for edition in batch.editions}
        return [order for order in self.orders.values() if inside & set(order.pieces)]

    def advance_orders(self) -> None:
        """An order that is being made is mailed when the carrier has its pieces, and fulfilled when every one
        of them has come to an end."""
        for order in self.orders.values():
            if order.status in (OrderStatus.PROCESSING, OrderStatus.PRINTING) and order.is_mailed:
                order.status = OrderStatus.MAILED
            if order.status in MADE and order.has_ended:
                order.status = OrderStatus.FULFILLED

    def order_of(self, piece: ModelItem) -> ModelOrder:
        return next(order for order in self.orders.values() if piece in order.pieces)

    def print_again(self, piece: ModelItem) -> None:
        """What has ended is not taken up again."""
        order = self.order_of(piece)
        if order.status is OrderStatus.FULFILLED:
            return
        piece.print_again()
        if order.status is OrderStatus.MAILED and not order.is_mailed:
            order.status = OrderStatus.PRINTING

    def claim_for_pooling(self, *, now: datetime) -> list[ModelItem]:
        """The pieces that the next batches are made of."""
        due = [o for o in self.orders.values() if o.pool_at is not None and o.pool_at <= now]
        for order in due:
            order.pool_at = None
        printed = {e.piece for batch in self.batches.values() for e in batch.editions}
        pieces = [piece for order in due for piece in order.pieces]
        return [piece for piece in pieces if piece.status is S.PROCESSING and piece not in printed]

    def in_the_mail(self) -> list[ModelItem]:
        """Whom the carrier has and nobody has seen the end of."""
        mailed = [batch for batch in self.batches.values() if batch.status == "mailed"]
        pieces = [edition.piece for batch in mailed for edition in batch.counting]
        return [piece for piece in pieces if piece.status in UNDER_WAY and not piece.is_over]
