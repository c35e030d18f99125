"""The API's templates."""
