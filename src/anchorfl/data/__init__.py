"""Official data sets, partitions over clients, and augmentation."""
